//! Requests that share an HTTP/2 connection.

use std::time::Duration;

use futures_util::future::join_all;
use nuncio_testkit::Gateway;

use crate::agents::{desk, echo};

/// Number of connections: the tested race is possible only while a connection becomes identified.
const CONNECTIONS: usize = 20;
const REQUESTS: usize = 32;
/// Time limit that is reached only if a request hangs.
const GIVE_UP: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn anonymous_and_identified_requests_on_one_http2_connection_are_all_answered() {
    let gateway = Gateway::builder().agent("desk", &desk(&[echo()])).start().await;
    let key = gateway.key(&[]).await.secret;
    for _ in 0..CONNECTIONS {
        let identified = gateway.aap_with_key(&key).over_http2();
        let anonymous = identified.anonymous();
        // Opens the connection, so that the requests after it share it.
        assert_eq!(anonymous.get("/sessions").await.0, 401);
        let requests = (0..REQUESTS).map(async |number| match number % 2 {
            0 => assert_eq!(identified.get("/sessions").await.0, 200),
            _ => assert_eq!(anonymous.get("/sessions").await.0, 401),
        });
        tokio::time::timeout(GIVE_UP, join_all(requests)).await.expect("every request is answered");
    }
    gateway.stop().await;
}
