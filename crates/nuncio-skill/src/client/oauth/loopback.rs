//! Loopback listener for the redirect of an OAuth login (RFC 8252 §7.3).

use std::time::Duration;

use nuncio_engine::ports::Clock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use crate::client::error::{ConsumerErrorReason, SkillConsumerError, plain};

/// Time limit for the user's login in the browser.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(600);
/// Time limit for reading one request to the loopback listener.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Size limit of a request head, in bytes.
const MAX_HEAD: usize = 16 * 1024;
/// Limit on requests before the login fails; browsers also request icons, and other programs may connect.
const MAX_REQUESTS: usize = 50;

const SUCCESS_PAGE: &str =
    "<!doctype html><meta charset=utf-8><title>Nuncio</title><p>You are logged in. This page can be closed.";
const FAILURE_PAGE: &str =
    "<!doctype html><meta charset=utf-8><title>Nuncio</title><p>The login failed. The terminal shows the reason.";

/// Listener that accepts one OAuth redirect.
pub(super) struct OAuthRedirectListener {
    listener: TcpListener,
    port: u16,
}

impl OAuthRedirectListener {
    pub(super) async fn open() -> Result<Self, SkillConsumerError> {
        let opened = async {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            let port = listener.local_addr()?.port();
            std::io::Result::Ok(Self { listener, port })
        };
        opened.await.map_err(|error| {
            SkillConsumerError::new(
                ConsumerErrorReason::TokenRefused,
                format!("no port can be opened for the browser: {error}"),
            )
        })
    }

    pub(super) fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}/callback", self.port)
    }

    /// Waits for the redirect that carries `state` and returns the redirect's authorization code.
    pub(super) async fn code(&self, state: &str, clock: &dyn Clock) -> Result<String, SkillConsumerError> {
        let refused = |why: String| SkillConsumerError::new(ConsumerErrorReason::TokenRefused, why);
        let too_late = clock.sleep_until(clock.now().after(LOGIN_TIMEOUT));
        tokio::pin!(too_late);
        for _ in 0..MAX_REQUESTS {
            let mut stream = tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => return Err(refused(format!("the connection of the browser cannot be accepted: {error}"))),
                },
                () = &mut too_late => return Err(refused("the browser did not return from the login in time".to_owned())),
            };
            let Some(back) = tokio::time::timeout(REQUEST_TIMEOUT, read(&mut stream)).await.ok().flatten() else {
                continue;
            };
            match outcome(&back, state) {
                None => answer(&mut stream, "404 Not Found", "").await,
                Some(Ok(code)) => {
                    answer(&mut stream, "200 OK", SUCCESS_PAGE).await;
                    return Ok(code);
                }
                Some(Err(why)) => {
                    answer(&mut stream, "400 Bad Request", FAILURE_PAGE).await;
                    return Err(refused(format!("the login was refused: {why}")));
                }
            }
        }
        Err(refused("another program keeps sending requests to the port for the login".to_owned()))
    }
}

/// Authorization code or error of a redirect; `None` if the path or state does not match.
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
        _ => Some(Err("the browser returned without a code".to_owned())),
    }
}

/// Parses the URL of a `GET` request on the loopback listener.
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
    // The login does not depend on the browser reading this page.
    let _ = stream.write_all(head.as_bytes()).await;
    let _ = stream.write_all(body.as_bytes()).await;
    let _ = stream.shutdown().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirect_yields_code_or_error_and_is_ignored_with_wrong_state_or_path() {
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
