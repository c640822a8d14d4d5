-- Bundles are keyed by owner and device, so that an id used by one owner does not block another. A bundle that an agent
-- published under the id of an enrolled device is dropped; one-time keys of dropped bundles go with them.
CREATE TABLE owned_key_bundles (
    owner   TEXT    NOT NULL,
    device  TEXT    NOT NULL,
    seq     INTEGER NOT NULL,
    content TEXT    NOT NULL,
    PRIMARY KEY (owner, device)
) STRICT;

CREATE TABLE owned_one_time_keys (
    place    INTEGER NOT NULL PRIMARY KEY,
    owner    TEXT    NOT NULL,
    device   TEXT    NOT NULL,
    key_id   TEXT    NOT NULL,
    fallback INTEGER NOT NULL CHECK (fallback IN (0, 1)),
    content  TEXT    NOT NULL,
    UNIQUE (owner, device, key_id),
    FOREIGN KEY (owner, device) REFERENCES owned_key_bundles (owner, device) ON DELETE CASCADE
) STRICT;

INSERT INTO owned_key_bundles (owner, device, seq, content)
SELECT owner, device, seq, content FROM key_bundles
WHERE owner LIKE 'person:%' OR device NOT IN (SELECT id FROM devices);

INSERT INTO owned_one_time_keys (place, owner, device, key_id, fallback, content)
SELECT k.place, b.owner, k.device, k.key_id, k.fallback, k.content
FROM one_time_keys k JOIN owned_key_bundles b ON b.device = k.device;

DROP TABLE one_time_keys;
DROP TABLE key_bundles;
ALTER TABLE owned_key_bundles RENAME TO key_bundles;
ALTER TABLE owned_one_time_keys RENAME TO one_time_keys;

CREATE INDEX key_bundles_by_device ON key_bundles (device);
