//! `/console/tasks`: the work that agents hand to people. Plain pages and forms; the scripts only
//! keep them fresh.
//!
//! Local visitors need no sign-in while the server is open to `local`; everyone else signs in with a
//! key that has all scopes, or the scope `console:tasks`. Whatever changes something is a form sent
//! from our own page, with a token that only that page knows.

use std::sync::Arc;

use ::http::{HeaderMap, StatusCode, Uri};
use axum::extract::{Path, Query, Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router, middleware};
use nuncio_core::Code;
use nuncio_core::audit::AuditEventRecord;
use nuncio_core::digest::Digest;
use nuncio_core::ids::TaskId;
use nuncio_core::task::Task;
use nuncio_engine::orders::OrderIssuer;
use nuncio_engine::tasks::TaskCommand;
use nuncio_engine::{Engine, EngineError, Identity};
use nuncio_http::pages::sender::{field, is_from_elsewhere, is_from_here};
use nuncio_http::pages::{Language, see, written};
use nuncio_http::{BodyLimits, CredentialLocation};
use serde::Deserialize;
use serde_json::json;

use super::texts::Texts;

mod display_time;
mod form;
mod page;
mod sessions;
mod sign_in;
mod visitor;

use form::TaskForm;
use page::{FormAttempt, InboxPage, MessagePage, PageFrame, TaskPage, holder};
use sessions::{Sessions, VisitKind};
use visitor::Visitor;

/// How long a reason may be.
const MAX_REASON: usize = 2000;

pub(super) struct Inbox {
    engine: Engine,
    bodies: BodyLimits,
    sessions: Sessions,
    /// The form token of local visitors, who need no key.
    token: String,
}

pub(super) fn routes(engine: Engine, bodies: BodyLimits) -> Router {
    let inbox = Inbox { engine, bodies, sessions: Sessions::default(), token: sessions::random() };
    Router::new()
        .route("/console", get(entrance))
        .route("/console/", get(entrance))
        .route("/console/tasks", get(list))
        .route("/console/tasks/{id}", get(show))
        .route("/console/tasks/{id}/{deed}", get(back).post(step))
        .route("/console/state", get(state))
        .route("/console/sign-in", get(sign_in::ask).post(sign_in::enter))
        .route("/console/sign-out", get(entrance).post(sign_in::leave))
        .layer(middleware::map_response(guarded))
        .with_state(Arc::new(inbox))
}

async fn guarded(mut response: Response) -> Response {
    nuncio_http::pages::headers::guard_private(response.headers_mut());
    response
}

/// Number of waiting tasks, for visitors who may use the inbox.
pub(super) async fn waiting(engine: &Engine) -> usize {
    engine.inbox().open_tasks().await.map_or(0, |tasks| tasks.len())
}

#[derive(Default, Deserialize)]
struct InboxQuery {
    lang: Option<String>,
    after: Option<String>,
    task: Option<String>,
    next: Option<String>,
}

struct PageVisitor {
    language: Language,
    language_was_chosen: bool,
    identity: Option<Identity>,
    headers: HeaderMap,
}

impl PageVisitor {
    fn new(asked: &InboxQuery, identity: Option<Extension<Identity>>, headers: HeaderMap) -> Self {
        let chosen = asked.lang.as_deref().and_then(Language::parse);
        Self {
            language: chosen.unwrap_or_else(|| Language::accepted(&headers)),
            language_was_chosen: chosen.is_some(),
            identity: identity.map(|Extension(identity)| identity),
            headers,
        }
    }

    fn frame(&self, path: &str, visitor: Option<Visitor>) -> PageFrame {
        PageFrame::new(self.language, self.language_was_chosen, path, visitor)
    }

    /// `path`, in the language the reader chose.
    fn to(&self, path: &str) -> String {
        let joint = if path.contains('?') { '&' } else { '?' };
        let tag = self.language.tag();
        if self.language_was_chosen { format!("{path}{joint}lang={tag}") } else { path.to_owned() }
    }

    fn visitor(&self, inbox: &Inbox) -> Option<Visitor> {
        inbox.visitor(self.identity.as_ref(), &self.headers, VisitKind::Visit)
    }

    /// Redirects to the sign-in page and back to `path`.
    fn turned_away(&self, path: &str) -> Response {
        if is_from_elsewhere(&self.headers) {
            // A browser that follows a link from elsewhere holds back the cookie. Asked by a page of
            // ours, it sends it.
            let texts = &Texts::of(self.language).sign_in;
            let link = (self.to(path), texts.elsewhere_go.clone());
            let frame = self.frame(path, None);
            let heading = texts.elsewhere.clone();
            let message = MessagePage { frame, heading, why: String::new(), link: Some(link), at_once: true };
            return written(StatusCode::OK, &message);
        }
        see(&self.to(&format!("/console/sign-in?next={path}")))
    }

    fn failed(&self, visitor: Option<Visitor>, error: &EngineError) -> Response {
        let (texts, frame) = (&Texts::of(self.language).inbox, self.frame("/console/tasks", visitor));
        if error.code == Code::TaskNotFound {
            return written(StatusCode::NOT_FOUND, &MessagePage::new(frame, &texts.not_found, &texts.not_found_why));
        }
        tracing::error!(code = %error.code, %error, "the inbox");
        written(StatusCode::SERVICE_UNAVAILABLE, &MessagePage::new(frame, &texts.failed, &error.message))
    }
}

/// `GET /console`
async fn entrance(asked: Query<InboxQuery>, identity: Option<Extension<Identity>>, headers: HeaderMap) -> Response {
    see(&PageVisitor::new(&asked, identity, headers).to("/console/tasks"))
}

/// `GET /console/tasks`: what waits. `after` names a task that the visitor has just done something with.
async fn list(
    State(inbox): State<Arc<Inbox>>,
    asked: Query<InboxQuery>,
    identity: Option<Extension<Identity>>,
    headers: HeaderMap,
) -> Response {
    let reader = PageVisitor::new(&asked, identity, headers);
    let Some(visitor) = reader.visitor(&inbox) else { return reader.turned_away("/console/tasks") };
    let after = asked.after.as_deref().and_then(|id| TaskId::parse(id).ok());
    let after = match after {
        Some(id) => inbox.engine.inbox().task(&id).await.ok(),
        None => None,
    };
    match inbox.engine.inbox().open_tasks().await {
        Ok(tasks) => {
            let frame = reader.frame("/console/tasks", Some(visitor));
            let version = version_of_all(&tasks);
            written(StatusCode::OK, &InboxPage::new(frame, tasks, after.as_ref(), version, inbox.engine.now()))
        }
        Err(error) => reader.failed(Some(visitor), &error),
    }
}

/// `GET /console/tasks/:id`
async fn show(
    State(inbox): State<Arc<Inbox>>,
    Path(id): Path<String>,
    asked: Query<InboxQuery>,
    identity: Option<Extension<Identity>>,
    headers: HeaderMap,
) -> Response {
    let reader = PageVisitor::new(&asked, identity, headers);
    let path = place(&id);
    let Some(visitor) = reader.visitor(&inbox) else { return reader.turned_away(&path) };
    match find(&inbox, &id).await {
        Ok(task) => task_page(&inbox, &reader, visitor, &task, StatusCode::OK, FormAttempt::default()),
        Err(error) => reader.failed(Some(visitor), &error),
    }
}

/// `GET` of a form's target, as after a reload.
async fn back(
    Path((id, _)): Path<(String, String)>,
    asked: Query<InboxQuery>,
    identity: Option<Extension<Identity>>,
    headers: HeaderMap,
) -> Response {
    see(&PageVisitor::new(&asked, identity, headers).to(&place(&id)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TaskAction {
    Take,
    GiveBack,
    Finish,
    Refuse,
}

impl TaskAction {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "take" => Self::Take,
            "give-back" => Self::GiveBack,
            "finish" => Self::Finish,
            "refuse" => Self::Refuse,
            _ => return None,
        })
    }
}

/// `POST /console/tasks/:id/:deed`
async fn step(
    State(inbox): State<Arc<Inbox>>,
    Path((id, deed)): Path<(String, String)>,
    asked: Query<InboxQuery>,
    identity: Option<Extension<Identity>>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let reader = PageVisitor::new(&asked, identity, parts.headers);
    let path = place(&id);
    if let Some(refusal) = stranger(&reader, &parts.uri) {
        return refusal;
    }
    let Some(visitor) = reader.visitor(&inbox) else {
        return see(&reader.to(&format!("/console/sign-in?next={path}")));
    };
    // The cookie was looked at, and counts as a credential.
    let sent = match inbox.form(&reader.headers, &parts.extensions, body, CredentialLocation::Body).await {
        Ok(sent) => sent,
        Err(status) => return unreadable(&reader, Some(visitor), status),
    };
    let unknown = || EngineError::new(Code::TaskNotFound, "there is nothing at this address");
    let found = match TaskAction::parse(&deed) {
        Some(deed) => find(&inbox, &id).await.map(|task| (deed, task)),
        None => Err(unknown()),
    };
    match found {
        Ok((deed, task)) => carry_out(&inbox, &reader, visitor, task, deed, &sent).await,
        Err(error) => reader.failed(Some(visitor), &error),
    }
}

/// Performs the action and shows its outcome. On failure the typed text is kept.
async fn carry_out(
    inbox: &Inbox,
    reader: &PageVisitor,
    visitor: Visitor,
    task: Task,
    deed: TaskAction,
    sent: &[(String, String)],
) -> Response {
    let texts = Texts::of(reader.language);
    let mut form = TaskForm::of(task.form.as_ref(), &texts.form);
    let is_filled = TaskForm::is_in(sent);
    if is_filled {
        form.fill(sent);
    }
    let reason: String = field(sent, "reason").unwrap_or_default().trim().chars().take(MAX_REASON).collect();
    let again = |form: TaskForm, notice: Option<String>| FormAttempt {
        notice,
        form: is_filled.then_some(form),
        reason: reason.clone(),
    };
    if !visitor.sent(sent) {
        let attempt = again(form, Some(texts.task.stale.clone()));
        return task_page(inbox, reader, visitor, &task, StatusCode::FORBIDDEN, attempt);
    }
    let step = match deed {
        TaskAction::Take => TaskCommand::Take { over: field(sent, "over").is_some() },
        TaskAction::GiveBack => TaskCommand::GiveBack,
        TaskAction::Refuse => TaskCommand::Refuse(reason.clone()),
        TaskAction::Finish => match form.result(&texts.form) {
            Some(output) => TaskCommand::Finish(output),
            None => {
                let attempt = FormAttempt { form: Some(form), ..FormAttempt::default() };
                return task_page(inbox, reader, visitor, &task, StatusCode::UNPROCESSABLE_ENTITY, attempt);
            }
        },
    };
    let by = OrderIssuer { principal: visitor.principal.clone(), account: None };
    let record = inbox.engine.records().order_record(step.action(), &by);
    let record = AuditEventRecord { subject: Some(task.id.to_string()), ..record };
    let stepped = inbox.engine.inbox().step_task(&task.id, step, &visitor.name);
    match inbox.engine.records().run_order(record, stepped, |_| None).await {
        // Taken over with a form half filled in: it goes on from there.
        Ok(task) if deed == TaskAction::Take && is_filled => {
            task_page(inbox, reader, visitor, &task, StatusCode::OK, again(form, None))
        }
        Ok(task) if deed == TaskAction::Take => see(&reader.to(&place(task.id.as_str()))),
        Ok(task) => see(&reader.to(&format!("/console/tasks?after={}", task.id))),
        Err(error) if matches!(error.code, Code::TaskClosed | Code::InvalidOutput) => {
            let task = inbox.engine.inbox().task(&task.id).await.unwrap_or(task);
            let notice = match (&error.code, holder(&task)) {
                (Code::InvalidOutput, _) => texts.task.broken.replace("{why}", &error.message),
                _ if task.state.is_over() || task.due <= inbox.engine.now() => texts.task.already_over.clone(),
                (_, Some(by)) if by != visitor.name => texts.task.already_taken.replace("{name}", by),
                _ => texts.task.not_yours.clone(),
            };
            let status =
                if error.code == Code::TaskClosed { StatusCode::CONFLICT } else { StatusCode::UNPROCESSABLE_ENTITY };
            task_page(inbox, reader, visitor, &task, status, again(form, Some(notice)))
        }
        Err(error) => reader.failed(Some(visitor), &error),
    }
}

fn task_page(
    inbox: &Inbox,
    reader: &PageVisitor,
    visitor: Visitor,
    task: &Task,
    status: StatusCode,
    attempt: FormAttempt,
) -> Response {
    let frame = reader.frame(&place(task.id.as_str()), Some(visitor));
    written(status, &TaskPage::new(frame, task, attempt, version_of(task), inbox.engine.now()))
}

/// `GET /console/state`: which version of the inbox, or of one task, there is. Pages ask for it by
/// themselves, so it keeps nobody signed in.
async fn state(
    State(inbox): State<Arc<Inbox>>,
    asked: Query<InboxQuery>,
    identity: Option<Extension<Identity>>,
    headers: HeaderMap,
) -> Response {
    let identity = identity.map(|Extension(identity)| identity);
    if inbox.visitor(identity.as_ref(), &headers, VisitKind::Glance).is_none() {
        return (StatusCode::UNAUTHORIZED, Json(json!({"code": Code::Unauthorized}))).into_response();
    }
    let version = match &asked.task {
        Some(id) => find(&inbox, id).await.map(|task| version_of(&task)),
        None => inbox.engine.inbox().open_tasks().await.map(|tasks| version_of_all(&tasks)),
    };
    match version {
        Ok(version) => Json(json!({"version": version})).into_response(),
        Err(error) => (StatusCode::NOT_FOUND, Json(json!({"code": error.code}))).into_response(),
    }
}

fn version_of(task: &Task) -> String {
    Digest::of_json(&json!([task.id, task.state])).to_string()
}

fn version_of_all(tasks: &[Task]) -> String {
    let states: Vec<_> = tasks.iter().map(|task| json!([task.id, task.state])).collect();
    Digest::of_json(&states.into()).to_string()
}

async fn find(inbox: &Inbox, id: &str) -> Result<Task, EngineError> {
    let id = TaskId::parse(id).map_err(|error| EngineError::new(Code::TaskNotFound, error.to_string()))?;
    inbox.engine.inbox().task(&id).await
}

/// The path of a task; an invalid id is left out.
fn place(id: &str) -> String {
    TaskId::parse(id).map_or_else(|_| "/console/tasks".to_owned(), |id| format!("/console/tasks/{id}"))
}

/// The response to a form without a valid token.
fn stranger(reader: &PageVisitor, uri: &Uri) -> Option<Response> {
    if is_from_here(&reader.headers, uri) {
        return None;
    }
    let texts = &Texts::of(reader.language).sign_in;
    let frame = reader.frame("/console/tasks", None);
    Some(written(StatusCode::FORBIDDEN, &MessagePage::new(frame, &texts.refused, &texts.refused_why)))
}

/// The answer to a form that is none, or too large, or too slow.
fn unreadable(reader: &PageVisitor, visitor: Option<Visitor>, status: StatusCode) -> Response {
    let why = status.canonical_reason().unwrap_or_default();
    let frame = reader.frame("/console/tasks", visitor);
    written(status, &MessagePage::new(frame, &Texts::of(reader.language).sign_in.unreadable, why))
}
