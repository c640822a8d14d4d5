use std::collections::HashMap;
use std::time::Duration;

use nuncio_core::agent::SkillVersion;
use nuncio_core::execution::{AcceptedInvocation, InvocationTarget, Priority, TraceIds};
use nuncio_core::ids::{AgentName, KeyId, ToolName};
use nuncio_core::policy::Protocol;
use proptest::prelude::*;
use serde_json::{Map, Value};

use super::*;

const TIMEOUT: u64 = 600_000;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(0).after(Duration::from_millis(millis))
}

fn caller(name: &str) -> Principal {
    Principal::Key(KeyId::parse(&format!("key_{name}")).unwrap())
}

fn skill(name: &str) -> SkillId {
    SkillId::parse(&format!("depot/{name}")).unwrap()
}

fn live(
    id: &str,
    of: &str,
    by: &str,
    priority: Priority,
    accepted: u64,
    room: SkillConcurrencyLimit,
) -> Arc<LiveExecution> {
    let order = AcceptedInvocation {
        skill: skill(of),
        version: SkillVersion { major: 1, minor: 0, patch: 0 },
        agent: AgentName::parse("depot").unwrap(),
        target: InvocationTarget::Tool(ToolName::parse("pickup").unwrap()),
        caller: crate::Caller::new(caller(by)),
        protocol: Protocol::Skill,
        inputs: Map::new(),
        priority,
        trace: TraceIds::default(),
        callback: None,
        created_at: at(accepted),
        timeout_ms: TIMEOUT,
        keep_ms: 0,
    };
    let execution = Execution::accepted(ExecutionId::parse(id).unwrap(), order);
    Arc::new(LiveExecution {
        id: execution.id.clone(),
        order: Arc::clone(&execution.order),
        execution: Mutex::new(execution),
        offered: None,
        cancel: CancellationToken::new(),
        room,
        moved: Notify::new(),
    })
}

fn normal(id: &str, of: &str, by: &str, accepted: u64) -> Arc<LiveExecution> {
    live(id, of, by, Priority::Normal, accepted, SkillConcurrencyLimit::Usual)
}

fn queue(places: usize) -> ExecutionQueue {
    ExecutionQueue::new(ExecutionLimits { running_per_skill: places, ..ExecutionLimits::default() })
}

/// Reserves capacity for the execution and queues it; returns the ids that run now.
fn enter(queue: &ExecutionQueue, live: &Arc<LiveExecution>) -> Vec<String> {
    queue.reserve(live.caller(), live.skill()).unwrap();
    ids(&queue.enter(live))
}

fn ids(lives: &[Arc<LiveExecution>]) -> Vec<String> {
    lives.iter().map(|live| live.id.to_string()).collect()
}

fn give_up(queue: &ExecutionQueue, by: &str, of: &str) {
    let refused = normal("exe_refused", of, by, 0);
    queue.announce(&refused);
    assert!(
        queue.find(&refused.id).is_some() && !queue.withdraw(&refused),
        "the announced execution does not wait yet"
    );
    queue.give_up(&refused);
    assert!(queue.find(&refused.id).is_none());
}

fn assert_empty(queue: &ExecutionQueue) {
    let inner = lock(&queue.inner);
    assert_eq!(inner.open, 0);
    assert!(inner.live.is_empty() && inner.lanes.is_empty(), "{inner:?}");
    assert!(inner.callers.is_empty() && inner.deadlines.is_empty(), "{inner:?}");
}

#[test]
fn executions_over_the_concurrency_of_a_skill_wait_in_order_of_acceptance() {
    let queue = queue(2);
    let lives: Vec<_> = (0..4).map(|n| normal(&format!("exe_{n}"), "a", "ada", n)).collect();
    assert_eq!(enter(&queue, &lives[0]), ["exe_0"]);
    assert_eq!(enter(&queue, &lives[1]), ["exe_1"]);
    assert_eq!(enter(&queue, &lives[3]), [] as [&str; 0]);
    assert_eq!(enter(&queue, &lives[2]), [] as [&str; 0]);
    assert_eq!(ids(&queue.leave(&lives[1])), ["exe_2"]);
    assert_eq!(ids(&queue.leave(&lives[0])), ["exe_3"]);
    assert_eq!(queue.open(), 2);
    assert!(queue.leave(&lives[2]).is_empty() && queue.leave(&lives[3]).is_empty());
    assert_empty(&queue);
}

#[test]
fn each_skill_has_its_own_queue_and_concurrency_limit() {
    let queue = queue(1);
    let slow = normal("exe_0", "slow", "ada", 0);
    assert_eq!(enter(&queue, &slow), ["exe_0"]);
    assert_eq!(enter(&queue, &normal("exe_1", "slow", "ada", 0)), [] as [&str; 0]);
    assert_eq!(enter(&queue, &normal("exe_2", "quick", "ada", 0)), ["exe_2"]);
    for id in ["exe_3", "exe_4", "exe_5"] {
        let wide = live(id, "wide", "ada", Priority::Normal, 0, SkillConcurrencyLimit::Places(3));
        assert_eq!(enter(&queue, &wide), [id]);
    }
    let fourth = live("exe_6", "wide", "ada", Priority::Normal, 0, SkillConcurrencyLimit::Places(3));
    assert_eq!(enter(&queue, &fourth), [] as [&str; 0]);
}

#[test]
fn waiting_executions_run_in_order_of_priority() {
    let queue = queue(1);
    let first = normal("exe_0", "a", "ada", 0);
    enter(&queue, &first);
    let [low, middle, high] = [(1, Priority::Low), (2, Priority::Normal), (3, Priority::High)]
        .map(|(n, priority)| live(&format!("exe_{n}"), "a", "ada", priority, n, SkillConcurrencyLimit::Usual));
    for waiting in [&low, &middle, &high] {
        assert_eq!(enter(&queue, waiting), [] as [&str; 0]);
    }
    assert_eq!(ids(&queue.leave(&first)), ["exe_3"]);
    assert_eq!(ids(&queue.leave(&high)), ["exe_2"]);
    assert_eq!(ids(&queue.leave(&middle)), ["exe_1"]);
}

/// A new high-priority execution arrives whenever one ends.
#[test]
fn lower_priority_runs_after_a_bounded_wait_despite_new_high_priority_work() {
    for priority in [Priority::Low, Priority::Normal] {
        let queue = queue(1);
        let patient = live("exe_patient", "a", "ada", priority, 1, SkillConcurrencyLimit::Usual);
        let mut running = live("exe_0", "a", "eve", Priority::High, 0, SkillConcurrencyLimit::Usual);
        enter(&queue, &running);
        enter(&queue, &patient);
        let mut second = 0;
        loop {
            second += 1;
            let urgent =
                live(&format!("exe_{second}"), "a", "eve", Priority::High, second * 1000, SkillConcurrencyLimit::Usual);
            enter(&queue, &urgent);
            let next = queue.leave(&running).remove(0);
            if next.id == patient.id {
                break;
            }
            running = next;
            assert!(second <= 1000, "{priority:?} waits for ever");
        }
        assert_eq!(second, priority.handicap().as_secs() + 1, "{priority:?}");
    }
}

#[test]
fn caller_at_its_running_limit_waits_while_other_callers_run() {
    let limits = ExecutionLimits { running_per_caller: 2, running_per_skill: 3, ..ExecutionLimits::default() };
    let queue = ExecutionQueue::new(limits);
    let ada: Vec<_> = (0..4).map(|n| normal(&format!("exe_{n}"), "a", "ada", n)).collect();
    assert_eq!(enter(&queue, &ada[0]), ["exe_0"]);
    assert_eq!(enter(&queue, &ada[1]), ["exe_1"]);
    assert_eq!(enter(&queue, &ada[2]), [] as [&str; 0], "the caller has reached its limit");
    assert_eq!(
        enter(&queue, &normal("exe_9", "b", "ada", 9)),
        [] as [&str; 0],
        "the limit of a caller applies to all lanes"
    );
    let eve = normal("exe_5", "a", "eve", 5);
    assert_eq!(enter(&queue, &eve), ["exe_5"], "another caller gets the free slot");
    assert_eq!(ids(&queue.leave(&ada[1])), ["exe_2"]);
    assert_eq!(ids(&queue.leave(&ada[0])), ["exe_9"]);
}

#[test]
fn freed_slot_of_a_caller_goes_to_its_longest_waiting_execution_of_any_skill() {
    for lanes in [["a", "b"], ["b", "a"]] {
        let limits = ExecutionLimits { running_per_caller: 1, ..ExecutionLimits::default() };
        let queue = ExecutionQueue::new(limits);
        let mut running = normal("exe_00", lanes[0], "ada", 0);
        enter(&queue, &running);
        let patient = normal("exe_patient", lanes[1], "ada", 1);
        enter(&queue, &patient);
        enter(&queue, &normal("exe_01", lanes[0], "ada", 2));
        running = queue.leave(&running).remove(0);
        assert_eq!(running.id, patient.id, "{lanes:?}");
    }
}

#[test]
fn reservation_over_caller_skill_or_server_limit_is_refused_until_released() {
    let limits = ExecutionLimits { open: 4, open_per_skill: 3, open_per_caller: 2, ..ExecutionLimits::default() };
    let queue = ExecutionQueue::new(limits);
    let reserve = |by: &str, of: &str| queue.reserve(&caller(by), &skill(of));
    assert_eq!((reserve("ada", "a"), reserve("ada", "b")), (Ok(()), Ok(())));
    assert_eq!(reserve("ada", "c"), Err(QueueLimitReached::Caller));
    assert_eq!((reserve("eve", "a"), reserve("bob", "a")), (Ok(()), Ok(())));
    assert_eq!(queue.open(), 4);
    assert_eq!(reserve("eve", "b"), Err(QueueLimitReached::Server));
    give_up(&queue, "ada", "b");
    assert_eq!(reserve("eve", "a"), Err(QueueLimitReached::Skill));
    assert_eq!(reserve("eve", "b"), Ok(()));
    assert_eq!(queue.open(), 4);
    for (by, of) in [("ada", "a"), ("eve", "a"), ("bob", "a"), ("eve", "b")] {
        give_up(&queue, by, of);
    }
    assert_empty(&queue);
}

#[test]
fn waiting_and_running_executions_count_towards_the_open_limit() {
    let limits = ExecutionLimits { open_per_caller: 2, running_per_skill: 1, ..ExecutionLimits::default() };
    let queue = ExecutionQueue::new(limits);
    let (running, waiting) = (normal("exe_0", "a", "ada", 0), normal("exe_1", "a", "ada", 1));
    enter(&queue, &running);
    enter(&queue, &waiting);
    let full = || queue.reserve(&caller("ada"), &skill("a"));
    assert_eq!(full(), Err(QueueLimitReached::Caller));
    assert!(queue.withdraw(&waiting));
    queue.forget(&waiting);
    assert_eq!(full(), Ok(()));
    give_up(&queue, "ada", "a");
    assert!(queue.leave(&running).is_empty());
    assert_empty(&queue);
}

#[test]
fn executions_accepted_before_restart_may_exceed_the_open_limits() {
    let queue = ExecutionQueue::new(ExecutionLimits { open: 1, open_per_caller: 1, ..ExecutionLimits::default() });
    for _ in 0..3 {
        queue.reserve_accepted(&caller("ada"), &skill("a"));
    }
    assert_eq!(queue.open(), 3);
    assert_eq!(queue.reserve(&caller("eve"), &skill("b")), Err(QueueLimitReached::Server));
}

#[test]
fn only_waiting_execution_can_be_withdrawn_and_only_once() {
    let queue = queue(1);
    let (running, waiting) = (normal("exe_0", "a", "ada", 0), normal("exe_1", "a", "ada", 1));
    enter(&queue, &running);
    enter(&queue, &waiting);
    assert!(!queue.withdraw(&running), "it runs");
    assert!(queue.find(&running.id).is_some());
    assert!(queue.withdraw(&waiting));
    assert!(!queue.withdraw(&waiting), "the execution no longer waits");
    assert!(queue.find(&waiting.id).is_some(), "an execution is found until its end is stored");
    queue.forget(&waiting);
    assert!(queue.find(&waiting.id).is_none());
    assert_eq!(queue.next_deadline(), None);
    assert!(queue.leave(&running).is_empty(), "a withdrawn execution does not run");
    assert!(!queue.withdraw(&running), "it is over");
    assert_empty(&queue);
}

#[test]
fn waiting_execution_expires_at_its_deadline_and_running_one_does_not() {
    let queue = queue(1);
    let [running, soon, later] = [0, 5, 7].map(|n| normal(&format!("exe_{n}"), "a", "ada", n));
    for live in [&running, &soon, &later] {
        enter(&queue, live);
    }
    assert_eq!(queue.next_deadline(), Some(at(TIMEOUT + 5)), "a running execution has no queue deadline");
    assert!(queue.expired(at(TIMEOUT + 4)).is_empty());
    assert_eq!(ids(&queue.expired(at(TIMEOUT + 5))), ["exe_5"]);
    assert_eq!(queue.next_deadline(), Some(at(TIMEOUT + 7)));
    assert_eq!(ids(&queue.expired(at(TIMEOUT + 1_000_000))), ["exe_7"]);
    assert!(queue.expired(at(TIMEOUT + 1_000_000)).is_empty());
    for late in [&soon, &later] {
        assert!(queue.find(&late.id).is_some(), "an execution is found until its end is stored");
        queue.forget(late);
        assert!(queue.find(&late.id).is_none());
    }
    assert!(queue.find(&running.id).is_some());
    assert!(queue.leave(&running).is_empty());
    assert_empty(&queue);
}

#[test]
fn executions_done_by_people_take_no_concurrency_slots() {
    let limits = ExecutionLimits { running_per_skill: 1, running_per_caller: 1, ..ExecutionLimits::default() };
    let queue = ExecutionQueue::new(limits);
    let people: Vec<_> = (0..50)
        .map(|n| live(&format!("exe_p{n:02}"), "people", "ada", Priority::Low, n, SkillConcurrencyLimit::Endless))
        .collect();
    for live in &people {
        assert_eq!(enter(&queue, live), ids(std::slice::from_ref(live)));
    }
    let machine = normal("exe_m", "machine", "ada", 9);
    assert_eq!(enter(&queue, &machine), ["exe_m"], "tasks for people take no slot of the caller");
    assert_eq!(enter(&queue, &normal("exe_n", "machine", "ada", 10)), [] as [&str; 0]);
    let more = live("exe_more", "people", "ada", Priority::Low, 11, SkillConcurrencyLimit::Endless);
    assert_eq!(enter(&queue, &more), ["exe_more"], "tasks for people run beyond the caller's limit");
    for live in people.iter().chain([&more]) {
        assert!(queue.leave(live).is_empty(), "the end of a task for people frees no slot");
    }
    assert_eq!(ids(&queue.leave(&machine)), ["exe_n"]);
}

#[test]
fn only_tool_with_fixed_answer_without_scope_or_approval_runs_instantly() {
    let tool = |more: &str| {
        let agent = format!(
            "[agent]\nname = \"depot\"\nversion = \"1.0.0\"\ndescription = \"A depot.\"\n\
             [brain]\nkind = \"script\"\n[[scope]]\nid = \"desk:use\"\nlabel = \"The desk\"\nsensitivity = \"low\"\n\
             [[tool]]\nname = \"pickup\"\ndescription = \"Picks up.\"\ninput = {{ type = \"object\" }}\n{more}"
        );
        Arc::clone(&nuncio_agent_file::parse("agent.toml", &agent).unwrap().agent.tools[0])
    };
    assert!(is_instant(&tool("run = { answer = \"done\" }")));
    for waits in [
        "run = { answer = \"done\" }\nscope = \"desk:use\"",
        "run = { answer = \"done\" }\nhuman_authorization = true",
        "run = { command = [\"true\"] }",
    ] {
        assert!(!is_instant(&tool(waits)), "{waits}");
    }
}

#[tokio::test]
async fn waiter_is_woken_when_execution_ends() {
    let live = normal("exe_0", "a", "ada", 0);
    let waits = tokio::spawn({
        let live = Arc::clone(&live);
        async move { live.wait_until_over().await }
    });
    live.update(|execution| execution.begin(at(1)).unwrap());
    tokio::task::yield_now().await;
    assert!(!waits.is_finished());
    live.update(|execution| ends(execution, ExecutionState::Completed { output: true.into() }, at(2)));
    waits.await.unwrap();
    live.wait_until_over().await;
    live.update(|execution| ends(execution, ExecutionState::Completed { output: false.into() }, at(3)));
    assert_eq!(live.now().state, ExecutionState::Completed { output: true.into() }, "it ends once");
}

#[test]
fn recently_ended_executions_with_small_results_stay_in_memory() {
    let queue = queue(4);
    let run = |id: &str, output: Value| {
        let live = normal(id, "a", "ada", 0);
        queue.reserve(live.caller(), live.skill()).unwrap();
        queue.announce(&live);
        assert!(queue.enter_at_once(&live));
        live.update(|execution| execution.begin(at(1)).unwrap());
        live.update(|execution| ends(execution, ExecutionState::Completed { output }, at(2)));
        assert!(queue.leave(&live).is_empty());
        live.id.clone()
    };
    let first = run("exe_first", true.into());
    assert!(queue.find(&first).is_some_and(|live| live.now().state.is_over()));
    for large in [
        "x".repeat(ENDED_BYTES).into(),
        Value::from(vec![0; ENDED_BYTES]),
        vec![Value::from("x".repeat(900)); 9].into(),
    ] {
        assert!(queue.find(&run("exe_large", large)).is_none());
    }
    for number in 1..MAX_ENDED_IN_MEMORY {
        run(&format!("exe_{number}"), number.into());
    }
    assert!(queue.find(&first).is_some());
    run("exe_last", true.into());
    assert!(queue.find(&first).is_none() && queue.open() == 0);
    assert_eq!(lock(&queue.inner).live.len(), MAX_ENDED_IN_MEMORY);
}

#[derive(Debug, Clone)]
enum QueueStep {
    Submit { of: usize, by: usize, priority: Priority, at_once: bool },
    Refuse { of: usize, by: usize },
    Finish(usize),
    Withdraw(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<QueueStep>> {
    let priority = prop_oneof![Just(Priority::Low), Just(Priority::Normal), Just(Priority::High)];
    let step = prop_oneof![
        5 => (0..SKILLS.len(), 0..CALLERS.len(), priority, any::<bool>())
            .prop_map(|(of, by, priority, at_once)| QueueStep::Submit { of, by, priority, at_once }),
        1 => (0..SKILLS.len(), 0..CALLERS.len()).prop_map(|(of, by)| QueueStep::Refuse { of, by }),
        3 => any::<usize>().prop_map(QueueStep::Finish),
        1 => any::<usize>().prop_map(QueueStep::Withdraw),
        1 => (0_u64..TIMEOUT).prop_map(QueueStep::Pass),
    ];
    prop::collection::vec(step, 0..120)
}

const SKILLS: [(&str, SkillConcurrencyLimit); 3] = [
    ("one", SkillConcurrencyLimit::Places(1)),
    ("usual", SkillConcurrencyLimit::Usual),
    ("people", SkillConcurrencyLimit::Endless),
];
const CALLERS: [&str; 3] = ["ada", "bob", "eve"];
const LIMITS: (usize, usize, usize) = (2, 3, 25);

/// Simple reference model of the execution queue.
#[derive(Default)]
struct ReferenceExecutionQueue {
    now: u64,
    made: usize,
    waiting: Vec<Arc<LiveExecution>>,
    running: Vec<Arc<LiveExecution>>,
}

impl ReferenceExecutionQueue {
    fn begin(&mut self, ready: &[Arc<LiveExecution>]) {
        for live in ready {
            let id = &live.id;
            let place = self.waiting.iter().position(|other| other.id == *id);
            self.waiting.remove(place.unwrap_or_else(|| panic!("{id} began and did not wait")));
            self.running.push(Arc::clone(live));
        }
    }

    fn slot_limit(room: SkillConcurrencyLimit) -> usize {
        match room {
            SkillConcurrencyLimit::Endless => usize::MAX,
            SkillConcurrencyLimit::Places(places) => places,
            SkillConcurrencyLimit::Usual => LIMITS.0,
        }
    }

    fn has_place(&self, live: &LiveExecution) -> bool {
        let in_lane = self.running.iter().filter(|other| other.skill() == live.skill()).count();
        let of_caller = self
            .running
            .iter()
            .filter(|other| other.room != SkillConcurrencyLimit::Endless && other.caller() == live.caller());
        in_lane < Self::slot_limit(live.room)
            && (live.room == SkillConcurrencyLimit::Endless || of_caller.count() < LIMITS.1)
    }

    fn check(&self, queue: &ExecutionQueue) {
        assert_eq!(queue.open(), self.waiting.len() + self.running.len());
        let mut lanes: HashMap<SkillId, usize> = HashMap::new();
        let mut callers: HashMap<Principal, usize> = HashMap::new();
        for live in &self.running {
            let lane = lanes.entry(live.skill().clone()).or_default();
            *lane += 1;
            assert!(*lane <= Self::slot_limit(live.room), "more executions run than the lane has slots");
            if live.room != SkillConcurrencyLimit::Endless {
                let caller = callers.entry(live.caller().clone()).or_default();
                *caller += 1;
                assert!(*caller <= LIMITS.1, "one caller runs more executions than its limit");
            }
        }
        for live in &self.waiting {
            assert!(queue.find(&live.id).is_some(), "a waiting execution is missing in the queue");
            assert!(!self.has_place(live), "an execution waits although a slot is free");
        }
        let next = self.waiting.iter().map(|live| live.order.deadline()).min();
        assert_eq!(queue.next_deadline(), next);
    }
}

proptest! {
    #[test]
    fn random_queue_operations_match_the_reference_model(steps in steps()) {
        let queue = ExecutionQueue::new(ExecutionLimits {
            running_per_skill: LIMITS.0,
            running_per_caller: LIMITS.1,
            open: LIMITS.2,
            ..ExecutionLimits::default()
        });
        let mut model = ReferenceExecutionQueue::default();
        for step in steps {
            match step {
                QueueStep::Submit { of, by, priority, at_once } => {
                    let (of, room) = SKILLS[of];
                    let reserved = queue.reserve(&caller(CALLERS[by]), &skill(of));
                    let full = model.waiting.len() + model.running.len() == LIMITS.2;
                    prop_assert_eq!(reserved, if full { Err(QueueLimitReached::Server) } else { Ok(()) });
                    if full {
                        continue;
                    }
                    model.made += 1;
                    let new = live(&format!("exe_{}", model.made), of, CALLERS[by], priority, model.now, room);
                    if at_once {
                        queue.announce(&new);
                        let others = model.waiting.iter().any(|live| live.skill() == new.skill());
                        let begins = queue.enter_at_once(&new);
                        prop_assert_eq!(begins, !others && model.has_place(&new));
                        if begins {
                            model.running.push(new);
                            model.check(&queue);
                            continue;
                        }
                    }
                    model.waiting.push(Arc::clone(&new));
                    model.begin(&queue.enter(&new));
                }
                QueueStep::Refuse { of, by } => {
                    let (caller, skill) = (caller(CALLERS[by]), skill(SKILLS[of].0));
                    if queue.reserve(&caller, &skill).is_ok() {
                        give_up(&queue, CALLERS[by], SKILLS[of].0);
                    }
                }
                QueueStep::Finish(which) if !model.running.is_empty() => {
                    let done = model.running.swap_remove(which % model.running.len());
                    model.begin(&queue.leave(&done));
                    prop_assert!(queue.find(&done.id).is_none());
                }
                QueueStep::Withdraw(which) if model.made > 0 => {
                    let all: Vec<_> = model.waiting.iter().chain(&model.running).cloned().collect();
                    let Some(one) = all.get(which % model.made) else { continue };
                    let waited = which % model.made < model.waiting.len();
                    prop_assert_eq!(queue.withdraw(one), waited);
                    if waited {
                        queue.forget(&model.waiting.remove(which % model.made));
                    }
                }
                QueueStep::Finish(_) | QueueStep::Withdraw(_) => {}
                QueueStep::Pass(millis) => {
                    model.now += millis;
                    let expired = queue.expired(at(model.now));
                    expired.iter().for_each(|live| queue.forget(live));
                    let mut expired = ids(&expired);
                    expired.sort();
                    let (late, left) =
                        std::mem::take(&mut model.waiting).into_iter().partition(|live| live.order.deadline() <= at(model.now));
                    model.waiting = left;
                    let mut late = ids(&late);
                    late.sort();
                    prop_assert_eq!(expired, late);
                }
            }
            model.check(&queue);
        }
        while let Some(done) = model.running.pop() {
            model.begin(&queue.leave(&done));
            model.check(&queue);
        }
        prop_assert!(model.waiting.is_empty(), "an execution waits forever");
        assert_empty(&queue);
    }
}
