//! Where those wait who want to be told. One listens to the bus for all of them: a word to one wakes
//! nobody else, however many are connected.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

use futures_util::StreamExt as _;
use nuncio_core::happening::Recipient;
use tokio::sync::Notify;

use crate::Engine;
use crate::ports::bus::Notice;

/// How many rooms there are before empty ones are looked for.
const FIRST_SWEEP: usize = 1024;

/// A room for everyone somebody waits for.
#[derive(Debug)]
pub(crate) struct Mailrooms {
    rooms: Mutex<Rooms>,
    listening: Once,
}

#[derive(Debug)]
struct Rooms {
    by_recipient: HashMap<Recipient, Weak<Notify>>,
    /// At how many empty ones are looked for.
    sweep_at: usize,
}

impl Default for Mailrooms {
    fn default() -> Self {
        let rooms = Rooms { by_recipient: HashMap::new(), sweep_at: FIRST_SWEEP };
        Self { rooms: Mutex::new(rooms), listening: Once::new() }
    }
}

impl Mailrooms {
    /// The room of a recipient, told of everything from now on.
    pub(crate) fn enter(&self, engine: &Engine, recipient: &Recipient) -> Arc<Notify> {
        self.listening.call_once(|| listen(engine));
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(room) = rooms.by_recipient.get(recipient).and_then(Weak::upgrade) {
            return room;
        }
        if rooms.by_recipient.len() >= rooms.sweep_at {
            rooms.by_recipient.retain(|_, room| room.strong_count() > 0);
            rooms.sweep_at = (rooms.by_recipient.len() * 2).max(FIRST_SWEEP);
        }
        let room = Arc::new(Notify::new());
        rooms.by_recipient.insert(recipient.clone(), Arc::downgrade(&room));
        room
    }

    /// Wakes whoever waits for these; everyone when nobody is named.
    fn wake(&self, recipients: &[Recipient]) {
        let rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let wake = |room: &Weak<Notify>| {
            if let Some(room) = room.upgrade() {
                room.notify_waiters();
            }
        };
        match recipients {
            [] => rooms.by_recipient.values().for_each(wake),
            named => named.iter().filter_map(|recipient| rooms.by_recipient.get(recipient)).for_each(wake),
        }
    }
}

/// Listens to the bus until the server stops.
fn listen(engine: &Engine) {
    let mut notices = engine.bus().subscribe();
    let listener = engine.clone();
    engine.spawn(async move {
        loop {
            tokio::select! {
                notice = notices.next() => match notice {
                    Some(Notice::Mail(recipients)) => listener.mailrooms().wake(&recipients),
                    Some(_) => {}
                    None => return,
                },
                () = listener.closing().cancelled() => return,
            }
        }
    });
}
