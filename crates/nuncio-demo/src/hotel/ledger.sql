CREATE TABLE room (
    room_id     TEXT    NOT NULL PRIMARY KEY,
    type        TEXT    NOT NULL CHECK (type IN ('standard', 'deluxe', 'suite', 'family')),
    description TEXT    NOT NULL,
    max_guests  INTEGER NOT NULL CHECK (max_guests >= 1),
    price_cents INTEGER NOT NULL CHECK (price_cents > 0)
) STRICT, WITHOUT ROWID;

CREATE TABLE reservation (
    reservation_id TEXT    NOT NULL PRIMARY KEY,
    room_id        TEXT    NOT NULL REFERENCES room (room_id),
    check_in       TEXT    NOT NULL,
    check_out      TEXT    NOT NULL CHECK (check_out > check_in),
    guests         INTEGER NOT NULL CHECK (guests >= 1),
    guest_name     TEXT    NOT NULL,
    -- What was agreed: a later change of the room's price does not touch it.
    total_cents    INTEGER NOT NULL CHECK (total_cents > 0),
    status         TEXT    NOT NULL CHECK (status IN ('confirmed', 'cancelled'))
) STRICT, WITHOUT ROWID;

-- One row for a night somebody has a room. The key is what makes a double
-- booking impossible; a cancellation deletes its rows.
CREATE TABLE room_night (
    room_id        TEXT NOT NULL REFERENCES room (room_id),
    night          TEXT NOT NULL,
    reservation_id TEXT NOT NULL REFERENCES reservation (reservation_id),
    PRIMARY KEY (room_id, night)
) STRICT, WITHOUT ROWID;

CREATE INDEX room_night_by_reservation ON room_night (reservation_id);
