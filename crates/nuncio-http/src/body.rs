//! Reading a request's body, within limits.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use nuncio_core::Code;
use nuncio_engine::{Engine, EngineError};

/// How many times the limit is read before a body that is too large is cut off.
const PATIENCE: usize = 8;

/// How large a body may be and how long it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// In bytes.
    pub bytes: usize,
    /// Until all of it has arrived.
    pub time: Duration,
}

impl BodyLimits {
    /// Reads a body.
    ///
    /// # Errors
    /// It is too large, too slow, or breaks off.
    pub async fn read(&self, engine: &Engine, body: Body) -> Result<Bytes, EngineError> {
        let clock = engine.clock();
        tokio::select! {
            // In this order a body that is there needs no timer.
            biased;
            read = collect(body, self.bytes) => read,
            () = async { clock.sleep_until(clock.now().after(self.time)).await } => {
                let message = format!("the body did not arrive within {} seconds", self.time.as_secs());
                Err(EngineError::new(Code::RequestTimeout, message))
            }
        }
    }
}

/// Reads the body up to the limit. What is beyond it is read and thrown away, up to a point: a client
/// that is still sending would otherwise see a broken connection instead of the answer.
async fn collect(mut body: Body, limit: usize) -> Result<Bytes, EngineError> {
    let mut first = Bytes::new();
    let mut bytes = BytesMut::new();
    let mut length = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| EngineError::new(Code::BadRequest, "the body did not arrive whole"))?;
        let Ok(data) = frame.into_data() else { continue };
        length = length.saturating_add(data.len());
        if length > limit {
            if length > limit.saturating_mul(PATIENCE) {
                break;
            }
        } else if length == data.len() {
            // Most bodies come in one piece, which need not be copied.
            first = data;
        } else {
            if bytes.is_empty() {
                bytes.extend_from_slice(&first);
            }
            bytes.extend_from_slice(&data);
        }
    }
    if length > limit {
        return Err(EngineError::new(Code::BodyTooLarge, format!("the body is larger than {limit} bytes")));
    }
    Ok(if bytes.is_empty() { first } else { bytes.freeze() })
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    fn body(pieces: &[&'static str]) -> Body {
        let pieces: Vec<Result<Bytes, std::io::Error>> = pieces.iter().map(|piece| Ok(Bytes::from(*piece))).collect();
        Body::from_stream(stream::iter(pieces))
    }

    #[tokio::test]
    async fn pieces_are_joined_up_to_the_limit() {
        for (pieces, whole) in
            [(&[][..], ""), (&["abc"], "abc"), (&["", "ab", "", "c"], "abc"), (&["a", "b", "c"], "abc")]
        {
            assert_eq!(collect(body(pieces), 3).await.unwrap(), whole, "{pieces:?}");
        }
        for pieces in [&["abcd"][..], &["ab", "cd"], &["abc", "d"]] {
            assert_eq!(collect(body(pieces), 3).await.unwrap_err().code, Code::BodyTooLarge, "{pieces:?}");
        }
    }
}
