//! Call outcomes while a process dies, consent changes or a call is repeated: nothing runs unallowed or twice, and the
//! agent gets the outcome.

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::symlink;

use serde_json::json;

use super::{HIGH, LOW, MEDIUM, PersonMachine, SealedCallSetup, line};
use crate::process::until;
use crate::skill_client::{Consumer, is_over};

#[tokio::test(flavor = "multi_thread")]
async fn device_killed_during_a_prompt_runs_nothing_and_reports_it_after_restart() {
    let scene = SealedCallSetup::new(&[HIGH]).await;
    let device = scene.laptop.start_with_terminal();
    let call = scene.call("c_1", "where", "a").await;
    device.wait_for_prompts(1).await;
    let shown = device.kill9();
    assert!(shown.contains("wants to run where"), "{shown}");
    assert!(!call.is_finished(), "nobody has answered yet");

    let mut device = scene.laptop.start_with_terminal();
    // A yes typed after the restart answers no prompt.
    device.answer("y", &call).await;
    let answer = call.await.unwrap();
    assert!(answer.contains("stopped before its person had answered"), "{answer}");
    assert_eq!(scene.tool_result("where"), "tool_unavailable");
    assert_eq!(device.questions(), 0, "nobody is asked again");
    // The device still works: the next call shows a prompt.
    let next = scene.call("c_2", "where", "b").await;
    device.wait_for_prompts(1).await;
    device.answer("y", &next).await;
    assert!(next.await.unwrap().contains("done"));
    device.stop();
    assert_eq!(scene.laptop.ran(), ["where {\"path\":\"b\"}"]);
    assert_eq!(scene.laptop.log(), [line("error", Some("TOOL_UNAVAILABLE"), false), line("ok", None, true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_two_devices_runs_a_call_and_the_other_closes_its_prompt() {
    let scene = SealedCallSetup::new(&[HIGH]).await;
    let phone = second(&scene);
    let (mut on_laptop, mut on_phone) = (scene.laptop.start_with_terminal(), phone.start_with_terminal());
    let call = scene.call("c_1", "where", "a").await;
    on_laptop.wait_for_prompts(1).await;
    on_phone.wait_for_prompts(1).await;
    on_phone.answer("y", &call).await;
    assert!(call.await.unwrap().contains("done"));
    // The first prompt on the laptop is closed, so the typed line denies the second one.
    let call = scene.call("c_2", "where", "b").await;
    on_laptop.wait_for_prompts(2).await;
    on_phone.wait_for_prompts(2).await;
    on_laptop.answer("n", &call).await;
    assert!(!call.await.unwrap().contains("done"));
    assert_eq!(scene.tool_result("where"), "denied");
    // The phone closes its prompt when the relay notifies it.
    let third = scene.call("c_3", "where", "c").await;
    on_laptop.wait_for_prompts(3).await;
    on_phone.wait_for_prompts(3).await;
    on_phone.answer("y", &third).await;
    assert!(third.await.unwrap().contains("done"));
    on_laptop.stop();
    on_phone.stop();
    assert_eq!((scene.laptop.ran().len(), phone.ran().len()), (0, 2));
    let refused = line("denied", Some("user_refused"), true);
    let (ok, elsewhere) = (line("ok", None, true), line("elsewhere", None, true));
    assert_eq!(phone.log(), [ok.clone(), elsewhere.clone(), ok]);
    let laptop = scene.laptop.log();
    assert_eq!(laptop[..2], [elsewhere.clone(), refused]);
    assert!(laptop[2..].iter().all(|line| *line == elsewhere), "{laptop:?}");
}

/// A second device of the same person; the two devices trust each other.
fn second(scene: &SealedCallSetup) -> PersonMachine {
    let phone = PersonMachine::new(&scene.world.relay);
    scene.laptop.device(&["trust", &phone.id, "--yes"]).json();
    phone.device(&["trust", &scene.laptop.id, "--yes"]).json();
    let allowed = phone.device(&["allow", &scene.world.agent_id]).json();
    let granted = allowed["ask"]["scopes"].as_array().unwrap().iter().any(|scope| scope["granted"] == true);
    assert!(granted, "what the laptop signed counts on the phone: {allowed}");
    phone
}

#[tokio::test(flavor = "multi_thread")]
async fn consent_revoked_on_another_device_during_a_prompt_stops_the_call() {
    let scene = SealedCallSetup::new(&[LOW, HIGH]).await;
    let phone = second(&scene);
    let device = scene.laptop.start_with_terminal();
    let call = scene.call("c_1", "where", "a").await;
    device.wait_for_prompts(1).await;
    phone.allow(&scene.world.agent_id, &[LOW]);
    // The laptop is notified of the revocation, and closes its prompt: a yes would have no effect.
    let response = scene.call("c_2", "tell", "b").await;
    assert!(response.await.unwrap().contains("done"));
    let answer = call.await.unwrap();
    assert!(!answer.contains("done"), "{answer}");
    assert_eq!(scene.tool_result("where"), "scope_not_granted");
    device.stop();
    assert_eq!(scene.laptop.ran(), ["tell {\"path\":\"b\"}"]);
    let mut log = scene.laptop.log();
    log.sort();
    assert_eq!(log, [line("denied", Some("scope_not_granted"), true), line("ok", None, false)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn call_runs_once_despite_a_relay_kill_during_its_prompt() {
    let mut scene = SealedCallSetup::new(&[HIGH]).await;
    let mut device = scene.laptop.start_with_terminal();
    let call = scene.call("c_1", "where", "a").await;
    device.wait_for_prompts(1).await;
    scene.world.relay.kill9();
    scene.world.relay.again();
    device.answer("y", &call).await;
    let answer = call.await.unwrap();
    assert!(answer.contains("done"), "{answer}");
    device.stop();
    assert_eq!(scene.laptop.ran().len(), 1);
    assert_eq!(scene.laptop.log(), [line("ok", None, true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn prompt_allowed_while_the_relay_is_down_runs_nothing() {
    let mut scene = SealedCallSetup::new(&[HIGH]).await;
    let mut device = scene.laptop.start_with_terminal();
    let call = scene.call("c_1", "where", "a").await;
    device.wait_for_prompts(1).await;
    scene.world.relay.kill9();
    // Another server at the relay's address closes every connection.
    let stub = TcpListener::bind(("127.0.0.1", scene.world.relay.port)).unwrap();
    stub.set_nonblocking(true).unwrap();
    until("the yes was taken", async || {
        device.0.line("y");
        let (mut caller, _) = stub.accept().ok()?;
        caller.set_nonblocking(false).unwrap();
        let mut buffer = [0; 512];
        let count = caller.read(&mut buffer).unwrap_or_default();
        String::from_utf8_lossy(&buffer[..count]).contains("/claim").then_some(())
    })
    .await;
    drop(stub);
    scene.world.relay.again();
    let answer = call.await.unwrap();
    assert!(!answer.contains("done"), "{answer}");
    assert_eq!(scene.tool_result("where"), "tool_unavailable");
    device.stop();
    assert_eq!(scene.laptop.ran(), Vec::<String>::new());
    assert_eq!(scene.laptop.log(), [line("error", Some("TOOL_UNAVAILABLE"), true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn agent_killed_during_a_prompt_gets_the_answer_after_restart() {
    let mut scene = SealedCallSetup::new(&[HIGH]).await;
    let mut device = scene.laptop.start_with_terminal();
    let bearer = format!("Bearer {}", scene.world.key);
    let consumer = Consumer::of(scene.world.agent.as_ref().unwrap()).with("authorization", bearer);
    let execution = consumer.submit("script/where", &json!({"path": "a"})).await;
    device.wait_for_prompts(1).await;
    scene.world.kill_agent();
    scene.world.start_agent();
    let over = until("the execution is over", async || {
        device.0.line("y");
        Some(consumer.status(&execution).await).filter(is_over)
    })
    .await;
    assert_eq!((&over["status"], &over["attempt"]), (&json!("completed"), &json!(2)), "{over}");
    assert_eq!(device.questions(), 1, "it is the same call");
    device.stop();
    assert_eq!(scene.laptop.ran().len(), 1);
    assert_eq!(scene.laptop.log(), [line("ok", None, true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn read_file_cannot_leave_the_allowed_folder_by_path_or_symlink() {
    const OUTSIDE: &str = "what nobody may read";
    let scene = SealedCallSetup::new(&[MEDIUM]).await;
    let home = &scene.laptop.home;
    // Without this file the device uses its built-in file tool instead of the test program.
    fs::remove_file(scene.laptop.home_folder().join("tools/read_file.toml")).unwrap();
    let (open, shut) = (home.path("open"), home.path("shut"));
    fs::create_dir_all(open.join("deep")).unwrap();
    fs::create_dir(&shut).unwrap();
    fs::write(open.join("deep/notes.md"), "what may be read").unwrap();
    fs::write(shut.join("secret"), OUTSIDE).unwrap();
    symlink(shut.join("secret"), open.join("link")).unwrap();
    symlink("../shut/secret", open.join("relative-link")).unwrap();
    symlink(&shut, open.join("folder-link")).unwrap();
    symlink("/proc/self/root", open.join("magic-link")).unwrap();
    fs::write(home.path("policy.toml"), "[[rule]]\nscope = \"filesystem:read\"\nanswer = \"allow\"\n").unwrap();
    let run = home.nuncio(&["--json", "device", "run"]).arg("--policy").arg(home.path("policy.toml"));
    let device = run.arg("--folder").arg(&open).arg("--home").arg(scene.laptop.home_folder()).start();
    let inside = scene.call("c_in", "read_file", "deep/../deep/notes.md").await.await.unwrap();
    assert!(!inside.contains("what may be read"), "not even within: {inside}");
    let inside = scene.call("c_inside", "read_file", "deep/notes.md").await.await.unwrap();
    assert!(inside.contains("what may be read"), "{inside}");
    let shut = shut.join("secret").display().to_string();
    let keys = scene.laptop.home_folder().join("keys.db").display().to_string();
    let out = [
        "../shut/secret",
        "deep/../../shut/secret",
        "link",
        "relative-link",
        "folder-link/secret",
        "magic-link/etc/passwd",
        "/proc/self/environ",
        "/etc/passwd",
        "../device/keys.db",
        "none",
        &shut,
        &keys,
    ];
    for (number, path) in out.into_iter().enumerate() {
        let answer = scene.call(&format!("c_{number}"), "read_file", path).await.await.unwrap();
        assert!(answer.contains("there is no such file in the allowed folders"), "{path:?}: {answer}");
        assert!(!answer.contains(OUTSIDE) && !answer.contains("root:"), "{path:?}: {answer}");
        assert_eq!(scene.tool_result("read_file"), "tool_failed");
    }
    device.stop();
    let log = scene.laptop.log();
    assert_eq!(log.iter().filter(|(status, ..)| status == "ok").count(), 1, "{log:?}");
    assert_eq!(log.len(), out.len() + 2);
}
