//! The port of this machine that a browser comes back to (RFC 8252 §7.3).

use std::time::Duration;

use nuncio_engine::ports::Clock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use crate::client::error::{ConsumerError, Reason, plain};

/// How long a person may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long a browser may take to send its request.
const REQUEST: Duration = Duration::from_secs(10);
/// How large that request may be.
const MAX_HEAD: usize = 16 * 1024;
/// How many requests are looked at: browsers ask for icons, and others may knock.
const MAX_REQUESTS: usize = 50;

const DONE: &str =
    "<!doctype html><meta charset=utf-8><title>Nuncio</title><p>You are logged in. This page can be closed.";
const FAILED: &str =
    "<!doctype html><meta charset=utf-8><title>Nuncio</title><p>The login did not come about. The terminal says why.";

/// A port that waits for one browser.
pub(super) struct Loopback {
    listener: TcpListener,
    port: u16,
}

impl Loopback {
    pub(super) async fn open() -> Result<Self, ConsumerError> {
        let opened = async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            let port = listener.local_addr()?.port();
            std::io::Result::Ok(Self { listener, port })
        };
        opened.await.map_err(|error| {
            ConsumerError::new(Reason::TokenRefused, format!("no port can be opened for the browser: {error}"))
        })
    }

    pub(super) fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}/callback", self.port)
    }

    /// The code the browser brings, with the state it was sent away with.
    pub(super) async fn code(&self, state: &str, clock: &dyn Clock) -> Result<String, ConsumerError> {
        let refused = |why: String| ConsumerError::new(Reason::TokenRefused, why);
        let too_late = clock.sleep_until(clock.now().after(PATIENCE));
        tokio::pin!(too_late);
        for _ in 0..MAX_REQUESTS {
            let mut stream = tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => return Err(refused(format!("the browser cannot be heard: {error}"))),
                },
                () = &mut too_late => return Err(refused("nobody came back from the browser".to_owned())),
            };
            let Some(back) = tokio::time::timeout(REQUEST, read(&mut stream)).await.ok().flatten() else { continue };
            match outcome(&back, state) {
                None => answer(&mut stream, "404 Not Found", "").await,
                Some(Ok(code)) => {
                    answer(&mut stream, "200 OK", DONE).await;
                    return Ok(code);
                }
                Some(Err(why)) => {
                    answer(&mut stream, "400 Bad Request", FAILED).await;
                    return Err(refused(format!("the login was refused: {why}")));
                }
            }
        }
        Err(refused("something else keeps asking the port for the browser".to_owned()))
    }
}

/// What a request brings: nothing unless it comes back from where we sent the browser.
fn outcome(back: &Url, state: &str) -> Option<Result<String, String>> {
    let of = |name: &str| back.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned());
    if back.path() != "/callback" || of("state").as_deref() != Some(state) {
        return None;
    }
    match (of("code"), of("error")) {
        (_, Some(error)) => {
            let more = of("error_description").map(|text| format!(": {}", plain(&text))).unwrap_or_default();
            Some(Err(format!("{}{more}", plain(&error))))
        }
        (Some(code), None) if !code.is_empty() => Some(Ok(code)),
        _ => Some(Err("it came back with nothing".to_owned())),
    }
}

/// The address a `GET` asks for.
async fn read(stream: &mut TcpStream) -> Option<Url> {
    let mut head = Vec::new();
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        if head.len() > MAX_HEAD || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let text = std::str::from_utf8(&head).ok()?;
    let mut words = text.lines().next()?.split(' ');
    let (method, path) = (words.next()?, words.next()?);
    let whole = format!("http://127.0.0.1{path}");
    if method == "GET" && path.starts_with('/') { Url::parse(&whole).ok() } else { None }
}

async fn answer(stream: &mut TcpStream, status: &str, body: &str) {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n",
        body.len()
    );
    // Whether the browser still listens makes no difference to the login.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(body.as_bytes()).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_browser_we_sent_is_believed() {
        let back = |query: &str| outcome(&Url::parse(&format!("http://127.0.0.1{query}")).unwrap(), "s1");
        assert_eq!(back("/callback?code=c&state=s1"), Some(Ok("c".to_owned())));
        for other in ["/favicon.ico", "/callback?code=c", "/callback?code=c&state=s2", "/x?code=c&state=s1"] {
            assert_eq!(back(other), None, "{other}");
        }
        let refused = back("/callback?error=access_denied&error_description=No%0A%1B&state=s1").unwrap().unwrap_err();
        assert_eq!(refused, "access_denied: No  ");
        assert!(back("/callback?state=s1").unwrap().is_err());
    }
}
