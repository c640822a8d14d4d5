//! TLS flags of the server and of the commands.

use std::fs;

use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
use reqwest::{Certificate, Version};

use crate::client::builder;
use crate::home::TestAgentFolder;
use crate::process::NuncioCommand;

/// Writes a self-signed certificate for `localhost` and its key to files; returns the certificate.
fn certificate(home: &TestAgentFolder) -> Certificate {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    fs::write(home.path("cert.pem"), cert.pem()).unwrap();
    fs::write(home.path("key.pem"), signing_key.serialize_pem()).unwrap();
    Certificate::from_pem(cert.pem().as_bytes()).unwrap()
}

fn serve(home: &TestAgentFolder) -> NuncioCommand {
    home.serve().arg("--tls-cert").arg(home.path("cert.pem")).arg("--tls-key").arg(home.path("key.pem"))
}

#[tokio::test]
async fn tls_server_serves_https_to_clients_that_trust_its_ca_and_refuses_plain_http() {
    let home = TestAgentFolder::script();
    let trusted = certificate(&home);
    let server = serve(&home).start();
    let url = server.url();
    assert!(url.starts_with("https://localhost:"), "{url}");
    let client = builder().tls_certs_only([trusted.clone()]).build().unwrap();
    let answer = client.get(format!("{url}/aap/meta")).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, Version::HTTP_2));
    let first = builder().tls_certs_only([trusted]).http1_only().build().unwrap();
    assert_eq!(first.get(format!("{url}/healthz")).send().await.unwrap().version(), Version::HTTP_11);

    let stranger = builder().tls_certs_only([]).build().unwrap();
    assert!(stranger.get(format!("{url}/healthz")).send().await.is_err(), "a certificate nobody vouches for");
    let plain = url.replace("https:", "http:");
    assert!(client.get(format!("{plain}/healthz")).send().await.is_err(), "no plain http");
    assert_eq!(client.get(format!("{url}/healthz")).send().await.unwrap().status(), 200, "it goes on");
}

#[test]
fn printed_next_command_keeps_address_and_ca_options() {
    let home = TestAgentFolder::hotel();
    certificate(&home);
    let server = serve(&home).start();
    let found = home.nuncio(&["discover", server.url(), "--extra-ca", "cert.pem"]).run();
    assert_eq!(found.status, Some(0), "{found:?}");
    let next: Vec<_> = found.stdout.lines().filter_map(|line| line.strip_prefix("next: nuncio ")).collect();
    assert_eq!(next.len(), 2, "one for the skills, one for the agents: {found:?}");
    for command in next {
        let ran = home.nuncio(&command.split(' ').collect::<Vec<_>>()).run();
        assert_eq!((ran.status, ran.stderr.as_str()), (Some(0), ""), "{command}: {ran:?}");
    }

    let mut chat = home.nuncio(&["chat", server.url(), "--extra-ca", "cert.pem"]).start_interactive();
    chat.line("/quit");
    let left = chat.wait_for_end();
    let again = format!("nuncio chat {} --extra-ca cert.pem --session ", server.url());
    assert!(left.stdout.contains(&again), "{left:?}");
    let (code, message) = home.nuncio(&["--json", "chat", server.url()]).run().failure();
    assert_eq!(code, "endpoint_unreachable");
    assert!(message.contains("its certificate is not accepted: no trusted authority"), "{message}");
    let plain = server.url().replace("https:", "http:");
    let ran = home.nuncio(&["chat", &plain]).run();
    assert!(ran.stderr.contains("at https:") && ran.stderr.contains("explain endpoint_unreachable"), "{ran:?}");
}

#[test]
fn unusable_tls_certificate_or_key_is_refused_with_the_file_name() {
    let home = TestAgentFolder::script();
    certificate(&home);
    let own = fs::read_to_string(home.path("key.pem")).unwrap();
    let another = KeyPair::generate().unwrap().serialize_pem();
    for (file, text) in [("key.pem", another.as_str()), ("key.pem", "no key"), ("cert.pem", ""), ("cert.pem", &own)] {
        certificate(&home);
        fs::write(home.path(file), text).unwrap();
        let (code, message) = serve(&home).run().failure();
        assert_eq!(code, "tls_invalid", "{file}: {text}");
        assert!(message.contains(".pem"), "{message}");
    }
    certificate(&home);
    fs::remove_file(home.path("key.pem")).unwrap();
    let (code, message) = serve(&home).run().failure();
    assert_eq!(code, "tls_invalid");
    assert!(message.contains("key.pem"), "{message}");
}
