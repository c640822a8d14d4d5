//! A proxy that records everything the relay sends.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

pub(super) struct NetworkTap {
    pub(super) url: String,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl NetworkTap {
    /// Starts a recording proxy in front of the server at this port of 127.0.0.1.
    pub(super) fn before(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
        let log = Arc::clone(&bytes);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let reverse = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || forward(reverse.0, reverse.1, None));
                let log = Arc::clone(&log);
                std::thread::spawn(move || forward(server, client, Some(&log)));
            }
        });
        Self { url, bytes }
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, log: Option<&Mutex<Vec<u8>>>) {
    let mut piece = [0; 8192];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        if let Some(log) = log {
            log.lock().unwrap().extend_from_slice(&piece[..count]);
        }
        if to.write_all(&piece[..count]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Read), to.shutdown(Shutdown::Write));
}
