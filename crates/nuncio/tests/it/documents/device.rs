//! `docs/device.md`: a first device, a second one that the first admits, and a third that replaces a lost one.

use super::document_run::DocumentRun;

const PHRASE: &str = "correct horse battery";

pub(super) fn run(run: &mut DocumentRun) {
    run.prepare("nuncio init my-agent --device && mkdir ~/notes");
    let port = run.port();
    let (server, _) = run.server_at(port, "my-agent");
    let link = invite(run);
    run.fill("https://agents.example/join#inv_…", &link);
    // There is no browser, so the link to the pages is printed.
    let joined = run.start_until("nuncio device join", "http://127.0.0.1:");
    run.shell.stop(&joined);
    let device = run.start_until("nuncio device run", "http://127.0.0.1:");

    run.fill("AGENT", "my-agent");
    assert!(run.run("nuncio device allow").contains("filesystem:read"));
    run.run("nuncio device allow");
    run.shell.stop(&device);
    let device = run.start_until("nuncio device run --tty", "http://127.0.0.1:");

    run.run("nuncio device devices");
    run.run("nuncio device invite");
    let admission = run.json("nuncio --json device invite");
    let text = |key: &str| admission[key].as_str().unwrap().to_owned();
    let (url, code, fingerprint) = (text("url"), text("code"), text("fingerprint"));
    let enrol = format!("nuncio --json device enrol {url} {code} --fingerprint {fingerprint} --home second");
    let second = run.json(&enrol)["device"].as_str().unwrap().to_owned();
    // Nobody is asked here, so it is confirmed with --yes.
    run.fill("trust DEVICE", &format!("trust {second} --yes"));
    run.fill("DEVICE", &second);
    run.run("nuncio device trust");
    run.run("nuncio device remove");

    run.fill("FILE", "backup.json");
    let phrases = format!("{PHRASE}\n{PHRASE}\n");
    run.run_with("nuncio device backup", 0, &phrases);
    run.shell.stop(&device);
    run.prepare("export NUNCIO_DEVICE=$PWD/restored");
    run.run_with("nuncio device restore", 0, &phrases);
    let link = invite(run);
    run.prepare(&format!("export NUNCIO_DEVICE=$PWD/new && nuncio device join '{link}' --no-run"));
    run.run_with("nuncio device recover", 0, &phrases);

    run.run("nuncio device storage");
    run.run_with("nuncio device storage passphrase", 0, &phrases);
    run.write("phrase", PHRASE);
    run.prepare("export NUNCIO_DEVICE_STORAGE_PASSPHRASE_FILE=$PWD/phrase");
    let key = run.path("device.key").display().to_string();
    run.fill("/media/stick/device.key", &key);
    run.run("nuncio device storage file");
    run.prepare("unset NUNCIO_DEVICE_STORAGE_PASSPHRASE_FILE");
    run.prepare(&format!("NUNCIO_DEVICE_STORAGE_KEY={key} nuncio device storage passphrase --passphrase-file phrase"));
    run.fill("FILE", "phrase");
    let device = run.start_until("nuncio device run --storage-passphrase-file", "http://127.0.0.1:");
    run.shell.stop(&device);
    run.shell.stop(&server);
}

fn invite(run: &mut DocumentRun) -> String {
    let invited = run.prepare("nuncio user invite ada");
    invited.split_whitespace().find(|word| word.contains("/join#")).unwrap().to_owned()
}
