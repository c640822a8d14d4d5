//! The pages "Activity" and "My devices" of a device.

use super::*;
use crate::webdriver::ENTER;

const ENTRIES: &str = "[...document.querySelectorAll('.entry')].map(entry => entry.innerText)";

/// Script expression for the card of a device with this status.
fn card(standing: &str) -> String {
    format!("document.querySelector('.standing-{standing}')")
}

/// Answers the pending call as soon as its buttons are enabled.
async fn answer(person: &DevicePagesSetup, answer: &str) {
    let button = format!("[data-part={answer}]");
    let counts = format!("document.querySelector({button:?})?.getAttribute('aria-disabled') === 'false'");
    person.browser.until(&counts).await;
    person.browser.click(&button).await;
    person.browser.until("!document.querySelector('.call')").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn activity_page_lists_all_calls_and_adds_new_ones_only_after_a_click_on_the_notice() {
    let ada = DevicePagesSetup::ada().await;
    ada.go("/happened").await;
    assert_eq!(ada.browser.eval(ENTRIES).await, json!([]));
    ada.allow(&["filesystem:read", "location:read", "garden:water"]).await;
    ada.go("/").await;
    let call = ada.calls("c1", "where_am_i", json!({}));
    answer(&ada, "deny").await;
    call.await.unwrap();
    ada.calls("c2", "water", json!({})).await.unwrap();
    let read = ada.calls("c3", "read_file", json!({"path": "treasure.md"}));
    answer(&ada, "allow").await;
    assert!(read.await.unwrap().contains(NOTE));

    ada.go("/happened").await;
    let shown = ada.browser.eval(ENTRIES).await;
    let shown: Vec<_> = shown.as_array().unwrap().iter().map(|entry| entry.as_str().unwrap()).collect();
    let expected = [
        ["script ran read_file", "Ran", "You were asked and agreed.", "Read local files"],
        ["script wanted to run water", "Failed", "It was not possible at that time", "Water the garden"],
        ["script wanted to run where_am_i", "Refused", "You denied it. You were asked.", "Read your location"],
    ];
    assert_eq!(shown.len(), 3, "{shown:?}");
    for (entry, texts) in shown.iter().zip(expected) {
        assert!(texts.iter().all(|text| entry.contains(text)), "{texts:?} are not in {entry}");
    }
    let theirs = ada.browser.eval("[...document.querySelectorAll('.entry .theirs')].map(part => part.innerText)").await;
    assert_eq!(theirs, json!(["Water the garden"]), "the agent's own words are marked as such");
    let proof = ada.browser.eval("document.querySelector('.proof').innerText").await;
    assert_eq!(proof, "3 entries, verified just now: the record is complete and unchanged.");
    for_everyone(&ada, "/happened", "happened").await;
    for_everyone(&ada, "/happened?outcome=denied", "happened-denied").await;

    // After another call, the page shows a notice and does not change until the person asks for the new entries.
    ada.go("/happened?lang=en").await;
    assert_eq!(ada.browser.eval("document.getElementById('fresh').hidden").await, true);
    ada.browser.click(".entry summary").await;
    ada.calls("c4", "water", json!({})).await.unwrap();
    ada.browser.until("!document.getElementById('fresh').hidden").await;
    assert_eq!(ada.browser.eval("document.querySelectorAll('.entry').length").await, 3);
    assert_eq!(ada.browser.eval("document.querySelector('.entry details').open").await, true);
    accessible(&ada.browser, "something new").await;
    save_screenshot(&ada.browser, "happened-fresh").await;
    ada.browser.click("#fresh a").await;
    ada.browser.until("document.querySelectorAll('.entry').length === 4").await;

    // The entries can be filtered, also by day in the person's time zone.
    ada.browser.run("document.getElementById('outcome').value = 'denied'", &[]).await;
    let today = "document.getElementById('day').value = new Intl.DateTimeFormat('sv').format(new Date())";
    ada.browser.run(today, &[]).await;
    ada.browser.click("#filter button").await;
    ada.browser.until("location.search.includes('outcome=denied')").await;
    assert_eq!(ada.browser.eval("document.querySelectorAll('.entry').length").await, 1);
    let offset = ada.browser.eval("new URLSearchParams(location.search).get('offset')").await;
    let here = "String(-new Date(document.getElementById('day').value + 'T00:00').getTimezoneOffset())";
    assert_eq!(offset, ada.browser.eval(here).await);

    // The download contains all entries, whatever the filter, and equals the output of the command.
    let script = "const done = arguments[0]; \
                  fetch(document.querySelector('a[download]').href).then(it => it.text()).then(done)";
    let lines = ada.browser.run_async(script).await;
    let lines: Vec<Value> = lines.as_str().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    ada.assert_no_browser_errors().await;
    let mut ada = ada;
    assert_eq!(lines, ada.log());
    assert_eq!(lines[3]["prev_hash"], lines[2]["hash"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn second_device_is_invited_confirmed_and_removed_on_the_devices_page() {
    let ada = DevicePagesSetup::ada().await;
    for_everyone(&ada, "/devices", "devices-one").await;
    ada.go("/devices").await;
    ada.browser.click("form[action*='/devices/invite'] button").await;
    let command = ada.browser.until("document.getElementById('command')?.innerText").await;
    accessible(&ada.browser, "an invite").await;
    save_screenshot(&ada.browser, "devices-invite").await;
    ada.browser.look(BrowserSettings { width: 360, dark: true, ..BrowserSettings::default() }).await;
    let sideways = "document.documentElement.scrollWidth > document.documentElement.clientWidth";
    assert_eq!(ada.browser.eval(sideways).await, false, "an invite scrolls sideways");
    accessible(&ada.browser, "an invite on a phone").await;
    ada.browser.look(BrowserSettings::default()).await;

    // The printed command is run on another machine of the person.
    let command = command.as_str().unwrap();
    let link = command.strip_prefix("nuncio device join '").and_then(|rest| rest.strip_suffix('\'')).unwrap();
    let join = ["--json", "device", "join", link, "--name", "phone", "--no-run"];
    let phone = ada.home.nuncio(&join).arg("--home").arg(ada.home.path("phone")).run().json();
    let phone = phone["device"].as_str().unwrap();
    ada.browser.until("!document.getElementById('fresh').hidden").await;
    ada.browser.click("#fresh a").await;
    let waits = ada.browser.until(&format!("{}?.innerText", card("waiting"))).await;
    assert!(waits.as_str().unwrap().contains("phone") && waits.as_str().unwrap().contains(phone), "{waits}");
    let number = ada.browser.eval(&format!("{}.querySelector('.number').innerText", card("waiting"))).await;
    let digits: String = number.as_str().unwrap().chars().filter(char::is_ascii_digit).collect();
    assert_eq!(digits.len(), 6, "{number}");
    for_everyone(&ada, "/devices", "devices-waiting").await;
    ada.browser.click(".standing-waiting button").await;
    ada.browser.until(&card("trusted")).await;
    assert!(
        ada.browser.eval("document.querySelector('.news').innerText").await.as_str().unwrap().contains("Confirmed")
    );

    // The page shows the consequences before it removes the lost device.
    for_everyone(&ada, &format!("/devices/{phone}/remove"), "devices-remove").await;
    ada.go("/devices?lang=en").await;
    ada.browser.click(".standing-trusted .remove").await;
    let follows = ada.browser.until("document.querySelector('.follows')?.innerText").await;
    for text in ["sessions end", "agents it communicates with are notified", "stay valid"] {
        assert!(follows.as_str().unwrap().contains(text), "{follows}");
    }
    ada.browser.click("form .danger").await;
    ada.browser.until(&card("removed")).await;
    assert_eq!(ada.browser.eval("document.querySelectorAll('.remove').length").await, 0);
    for_everyone(&ada, "/devices", "devices-removed").await;
    ada.assert_no_browser_errors().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn backup_form_needs_the_passphrase_twice_and_clears_it_afterwards() {
    let ada = DevicePagesSetup::ada().await;
    ada.go("/devices").await;
    let good = "correct horse battery";
    // A passphrase that is too short is refused by the page itself.
    ada.browser.write("#passphrase", "short").await;
    ada.browser.write("#again", &format!("short{ENTER}")).await;
    ada.browser.until("document.getElementById('passphrase').matches(':invalid')").await;
    assert_eq!(ada.browser.eval("document.querySelector('[role=alert]')").await, Value::Null);
    ada.browser.run("document.getElementById('backup').reset()", &[]).await;
    ada.browser.write("#passphrase", good).await;
    ada.browser.write("#again", &format!("another {good}{ENTER}")).await;
    let wrong = ada.browser.until("document.querySelector('[role=alert]')?.innerText").await;
    assert_eq!(wrong, "The passphrases do not match. Nothing was backed up.");
    accessible(&ada.browser, "passphrases do not match").await;
    save_screenshot(&ada.browser, "devices-wrong").await;
    ada.go("/devices").await;
    ada.browser.write("#passphrase", good).await;
    ada.browser.write("#again", &format!("{good}{ENTER}")).await;
    ada.browser.until("!document.getElementById('backing-up').hidden").await;
    ada.browser.until("document.getElementById('passphrase').value === ''").await;
    let complaints = ada.browser.browser_errors().await;
    assert!(complaints.iter().all(|complaint| complaint.contains("422")), "{complaints:?}");
}
