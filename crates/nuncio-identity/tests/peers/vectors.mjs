// Every vector of sealing.json, computed again.

import assert from "node:assert";
import * as sealing from "./sealing.mjs";

const { b64, canonicalize, labelled, sha256, unb64 } = sealing;
const hex = (bytes) => Buffer.from(bytes).toString("hex");
const unhex = (text) => Buffer.from(text, "hex");

export async function check({ envelope, stream, padding, bundle, one_time_key, endorsement, safety, backup }) {
  await checkEnvelope(envelope);
  checkStream(stream);
  for (const [length, padded] of padding) assert.equal(sealing.paddedLength(length), padded);
  for (const { signer, label, value, message, signature } of [bundle, one_time_key, endorsement]) {
    const signed = labelled(label, value);
    assert.equal(signed.toString("utf8"), message);
    assert.equal(b64(sealing.sign(sealing.signingKey(unhex(signer)), signed)), signature);
  }
  assert.equal(sealing.safetyNumber(safety.sides), safety.number);
  checkBackup(backup);
  return { checked: 6 + padding.length };
}

async function checkEnvelope(v) {
  const canonical = canonicalize(v.header);
  assert.equal(canonical, v.header_canonical);
  const hash = sha256(canonical);
  assert.equal(hex(hash), v.header_hash);
  const padded = sealing.pad(Buffer.from(v.payload, "utf8"));
  assert.equal(hex(padded), v.padded);
  assert.equal(hex(sealing.bodyAad(hash)), v.body_aad);
  const ct = sealing.encrypt(unhex(v.cek), unhex(v.nonce), sealing.bodyAad(hash), padded);
  const body = { ct: b64(ct), nonce: b64(unhex(v.nonce)) };
  assert.equal(canonicalize(body), v.body_canonical);
  assert.equal(hex(sha256(v.body_canonical)), v.body_hash);
  const content = Buffer.concat([unhex(v.cek), hash]);
  assert.equal(hex(content), v.wrapped);
  assert.equal(b64(content), v.wrapped_in_olm);
  const { key, raw } = await sealing.agreementPublic(unhex(v.recipient_secret));
  assert.equal(b64(raw), v.recipient_key);
  const entry = { device_id: v.recipient_device, alg: "hpke-x25519-hkdfsha256-aes256gcm", ...(await sealing.hpkeWrap(raw, hash, content, unhex(v.ephemeral_ikm))) };
  assert.equal(canonicalize([entry]), v.to_canonical);
  assert.equal(hex(sha256(v.to_canonical)), v.to_hash);
  const signed = sealing.signatureInput(hash, body, [entry]);
  assert.equal(hex(signed), v.signature_input);
  const signer = sealing.signingKey(unhex(v.sender_seed));
  assert.equal(b64(sealing.publicOf(signer)), v.sender_key);
  const sig = b64(sealing.sign(signer, signed));
  assert.equal(canonicalize({ hdr: v.header, body, to: [entry], sig }), v.envelope);
  // And back.
  const opened = await sealing.hpkeUnwrap(key, hash, JSON.parse(v.envelope).to[0]);
  assert.equal(hex(opened), v.wrapped);
  const plain = sealing.unpad(sealing.decrypt(opened.subarray(0, 32), unhex(v.nonce), sealing.bodyAad(hash), ct));
  assert.equal(plain.toString("utf8"), v.payload);
}

function checkStream({ header, header_hash, payload, key, prefix, pieces }) {
  const hash = sha256(canonicalize(header));
  assert.equal(hex(hash), header_hash);
  assert.deepEqual(payload, { type: "system", event: "stream", key: b64(unhex(key)), prefix: b64(unhex(prefix)) });
  pieces.forEach(({ stream_seq, final, text, nonce, aad, ct }, place) => {
    assert.equal(stream_seq, place + 1);
    assert.equal(hex(sealing.streamNonce(unhex(prefix), stream_seq)), nonce);
    assert.equal(hex(sealing.streamAad(hash, stream_seq, final)), aad);
    assert.equal(hex(sealing.encrypt(unhex(key), unhex(nonce), unhex(aad), sealing.pad(Buffer.from(text, "utf8")))), ct);
  });
  const read = new sealing.StreamReader(header, payload);
  assert.deepEqual(pieces.map(({ stream_seq, final, ct }) => read.next(stream_seq, final, unhex(ct))), pieces.map(({ text }) => text));
}

function checkBackup({ passphrase, wrapping_key, agreement_secret, signing_seed, backup }) {
  const { backup_a, backup_b, ...whose } = backup;
  const { m, t, p } = whose.argon2_params;
  const key = sealing.argon2id(passphrase, unb64(whose.argon2_salt), { m, t, p, dkLen: 32 });
  assert.equal(hex(key), wrapping_key);
  const aad = (label) => Buffer.concat([Buffer.from(label), sha256(canonicalize(whose))]);
  const unwrap = (label, text) => {
    const bytes = unb64(text);
    return hex(sealing.decrypt(key, bytes.subarray(0, 12), aad(label), bytes.subarray(12)));
  };
  assert.equal(unwrap("a2h/backup/v1/x25519", backup_a), agreement_secret);
  assert.equal(unwrap("a2h/backup/v1/ed25519", backup_b), signing_seed);
}
