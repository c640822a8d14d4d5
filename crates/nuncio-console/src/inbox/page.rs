//! View models of the inbox templates.

use askama::Template;
use nuncio_core::task::{HumanTask, TaskState};
use nuncio_core::time::Timestamp;
use nuncio_http::pages::{Language, LanguageThemeSwitches};
use serde_json::Value;

use super::display_time::DisplayTime;
use super::form::{FormItem, TaskForm};
use super::visitor::PageVisitor;
use crate::assets;
use crate::texts::Texts;

/// The parts common to every console page.
pub(super) struct PageFrame {
    pub(super) text: &'static Texts,
    pub(super) language: Language,
    switches: LanguageThemeSwitches,
    assets: &'static str,
    visitor: Option<PageVisitor>,
    /// `?lang=…` if the URL sets the language, so that links keep it.
    pub(super) lang: String,
}

impl PageFrame {
    /// The frame of the page at `path`, which may have a query.
    pub(super) fn new(language: Language, chosen: bool, path: &str, visitor: Option<PageVisitor>) -> Self {
        let lang = if chosen { format!("?lang={}", language.tag()) } else { String::new() };
        Self {
            text: Texts::of(language),
            language,
            switches: LanguageThemeSwitches::new(path, language),
            assets: assets::folder(),
            visitor,
            lang,
        }
    }

    fn token(&self) -> &str {
        self.visitor.as_ref().map_or("", |visitor| &visitor.token)
    }

    fn name(&self) -> &str {
        self.visitor.as_ref().map_or("", |visitor| &visitor.name)
    }

    fn signed_in(&self) -> Option<&str> {
        self.visitor.as_ref().filter(|visitor| visitor.signed_in).map(|visitor| visitor.name.as_str())
    }
}

/// `GET /console/tasks`
#[derive(Template)]
#[template(path = "inbox.html")]
pub(super) struct InboxPage {
    frame: PageFrame,
    notice: Option<String>,
    sections: Vec<TaskSection>,
    total: usize,
    version: String,
}

struct TaskSection {
    heading: &'static str,
    rows: Vec<TaskRow>,
}

struct TaskRow {
    href: String,
    title: String,
    agent: String,
    /// The beginning of the inputs, which distinguishes tasks of one tool.
    line: Option<String>,
    due: DisplayTime,
    holder: Option<String>,
}

impl InboxPage {
    pub(super) fn new(
        frame: PageFrame,
        mut tasks: Vec<HumanTask>,
        after: Option<&HumanTask>,
        version: String,
        now: Timestamp,
    ) -> Self {
        let text = frame.text;
        tasks.sort_by_key(|task| task.due);
        let row = |task: &HumanTask| TaskRow {
            href: task_link(task, &frame),
            title: task.title.clone(),
            agent: task.agent.to_string(),
            line: task
                .instructions
                .lines()
                .find(|line| !line.trim().is_empty())
                .map(|line| line.chars().take(200).collect()),
            due: DisplayTime::due(task.due, now, &text.inbox),
            holder: holder(task).filter(|by| *by != frame.name()).map(str::to_owned),
        };
        let section = |heading: &'static str, belongs: &dyn Fn(&HumanTask) -> bool| TaskSection {
            heading,
            rows: tasks.iter().filter(|task| belongs(task)).map(row).collect(),
        };
        let mine = |task: &HumanTask| holder(task) == Some(frame.name());
        let sections = [
            section(&text.inbox.yours, &mine),
            section(&text.inbox.waiting, &|task| holder(task).is_none()),
            section(&text.inbox.others, &|task| holder(task).is_some() && !mine(task)),
        ];
        let sections = sections.into_iter().filter(|section| !section.rows.is_empty()).collect();
        let notice = after.and_then(|task| last_action_notice(task, &frame));
        Self { notice, sections, total: tasks.len(), version, frame }
    }
}

/// The notice about the visitor's last action on a task.
fn last_action_notice(task: &HumanTask, frame: &PageFrame) -> Option<String> {
    let texts = &frame.text.inbox;
    let text = match &task.state {
        TaskState::Done { by, .. } if by == frame.name() => &texts.finished,
        TaskState::Refused { by, .. } if by == frame.name() => &texts.refused,
        TaskState::Open => &texts.given_back,
        _ => return None,
    };
    Some(text.replace("{title}", &task.title))
}

/// `GET /console/tasks/:id`
#[derive(Template)]
#[template(path = "task.html")]
pub(super) struct TaskPage {
    frame: PageFrame,
    notice: Option<String>,
    title: String,
    path: String,
    watch: String,
    agent: String,
    asked_by: String,
    since: DisplayTime,
    due: DisplayTime,
    instructions: String,
    inputs: Vec<(String, TaskValueView)>,
    stage: TaskStage,
    form: TaskForm,
    /// Whether the form is shown with the typed text although the visitor does not hold the task.
    shows_typed_form: bool,
    reason: String,
    version: String,
}

struct TaskValueView {
    text: String,
    code: bool,
}

/// The state of a task from the view of the visitor.
enum TaskStage {
    Open,
    Mine,
    Others { by: String },
    Done { by: String, at: DisplayTime, output: TaskValueView },
    Refused { by: String, at: DisplayTime, reason: String },
    Withdrawn { at: DisplayTime },
    Late,
}

/// A failed form submission: the filled-in form and its messages.
#[derive(Default)]
pub(super) struct FailedFormSubmission {
    pub(super) notice: Option<String>,
    /// The form with the typed text, if the request had its fields.
    pub(super) form: Option<TaskForm>,
    pub(super) reason: String,
}

impl TaskPage {
    pub(super) fn new(
        frame: PageFrame,
        task: &HumanTask,
        attempt: FailedFormSubmission,
        version: String,
        now: Timestamp,
    ) -> Self {
        let text = frame.text;
        let stage = stage(task, &frame, now);
        let shows_typed_form = attempt.form.is_some() && matches!(stage, TaskStage::Others { .. } | TaskStage::Open);
        Self {
            notice: attempt.notice,
            title: task.title.clone(),
            path: format!("/console/tasks/{}", task.id),
            watch: format!("/console/state?task={}", task.id),
            agent: task.agent.to_string(),
            asked_by: task.asked_by.to_string(),
            since: DisplayTime::at(task.created_at),
            due: DisplayTime::due(task.due, now, &text.inbox),
            instructions: task.instructions.clone(),
            inputs: task.inputs.iter().map(|(name, value)| (name.clone(), TaskValueView::of(value))).collect(),
            stage,
            form: attempt.form.unwrap_or_else(|| TaskForm::of(task.form.as_ref(), &text.form)),
            shows_typed_form,
            reason: attempt.reason,
            version,
            frame,
        }
    }

    /// The text that says how many fields are wrong.
    fn problems(&self) -> Option<String> {
        let texts = &self.frame.text.form;
        match self.form.problems().count() + self.form.faults.len() {
            0 => None,
            1 => Some(texts.problems_one.clone()),
            count => Some(texts.problems.replace("{count}", &count.to_string())),
        }
    }
}

fn stage(task: &HumanTask, frame: &PageFrame, now: Timestamp) -> TaskStage {
    match &task.state {
        TaskState::Done { by, at, output } => {
            TaskStage::Done { by: by.clone(), at: DisplayTime::at(*at), output: TaskValueView::of(output) }
        }
        TaskState::Refused { by, at, reason } => {
            TaskStage::Refused { by: by.clone(), at: DisplayTime::at(*at), reason: reason.clone() }
        }
        TaskState::Withdrawn { at } => TaskStage::Withdrawn { at: DisplayTime::at(*at) },
        _ if task.due <= now => TaskStage::Late,
        TaskState::Open => TaskStage::Open,
        TaskState::Taken { by, .. } if by == frame.name() => TaskStage::Mine,
        TaskState::Taken { by, .. } => TaskStage::Others { by: by.clone() },
    }
}

impl TaskValueView {
    fn of(value: &Value) -> Self {
        match value {
            Value::String(text) => Self { text: text.clone(), code: false },
            Value::Array(_) | Value::Object(_) => {
                Self { text: serde_json::to_string_pretty(value).unwrap_or_default(), code: true }
            }
            other => Self { text: other.to_string(), code: false },
        }
    }
}

/// `GET /console/sign-in`
#[derive(Template)]
#[template(path = "sign-in.html")]
pub(super) struct SignInPage {
    pub(super) frame: PageFrame,
    pub(super) fault: Option<String>,
    pub(super) next: String,
}

#[derive(Template)]
#[template(path = "message.html")]
pub(super) struct MessagePage {
    pub(super) frame: PageFrame,
    pub(super) heading: String,
    pub(super) why: String,
    /// The address and text of a link.
    pub(super) link: Option<(String, String)>,
    /// Whether the browser follows the link by itself.
    pub(super) at_once: bool,
}

impl MessagePage {
    /// An error page with a link back to the inbox.
    pub(super) fn new(frame: PageFrame, heading: &str, why: &str) -> Self {
        let link = (format!("/console/tasks{}", frame.lang), frame.text.inbox.heading.clone());
        Self { frame, heading: heading.to_owned(), why: why.to_owned(), link: Some(link), at_once: false }
    }
}

fn task_link(task: &HumanTask, frame: &PageFrame) -> String {
    format!("/console/tasks/{}{}", task.id, frame.lang)
}

pub(super) fn holder(task: &HumanTask) -> Option<&str> {
    match &task.state {
        TaskState::Taken { by, .. } => Some(by),
        _ => None,
    }
}

/// Splits a text at its `{placeholders}`; the flag marks them.
fn placeholders(text: &str) -> impl Iterator<Item = (bool, &str)> {
    text.split(['{', '}']).enumerate().map(|(index, part)| (index % 2 == 1, part))
}
