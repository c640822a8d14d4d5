//! `/console/tasks`: tasks that agents give to people. The pages and forms work without scripts, which only refresh
//! them.
//!
//! Local visitors need no sign-in while the server is open to `local`; everyone else signs in with a key that has all
//! scopes or the scope `console:tasks`. Every change is a form from a page of this server, with a token that only that
//! page has.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router, middleware};
use http::StatusCode;
use nuncio_core::ErrorCode;
use nuncio_core::audit::AuditEventRecord;
use nuncio_core::digest::Digest;
use nuncio_core::ids::TaskId;
use nuncio_core::task::HumanTask;
use nuncio_engine::operator_commands::OperatorCommandIssuer;
use nuncio_engine::ports::Entropy;
use nuncio_engine::tasks::TaskCommand;
use nuncio_engine::{Engine, EngineError};
use nuncio_http::pages::sender::field;
use nuncio_http::pages::{see, written};
use nuncio_http::{BodyLimits, CredentialLocation};
use serde_json::json;

use crate::texts::Texts;

mod display_time;
mod form;
mod page;
mod request;
mod sessions;
mod sign_in;
mod visitor;

use form::TaskForm;
use page::{FailedFormSubmission, InboxPage, TaskPage, holder};
use request::{PageRequest, SameOriginForm};
use sessions::{SessionRenewal, SignInSessions};
use visitor::PageVisitor;

/// Limit in characters of the reason for refusing a task; the rest is cut off.
const MAX_REASON: usize = 2000;

const TASKS: &str = "/console/tasks";

struct InboxPages {
    engine: Engine,
    bodies: BodyLimits,
    sessions: SignInSessions,
    /// The CSRF token in the forms of local visitors, who have no session.
    local_token: String,
}

pub(crate) fn routes(engine: Engine, entropy: Arc<dyn Entropy>, bodies: BodyLimits) -> Router {
    let sessions = SignInSessions::new(entropy);
    let local_token = sessions.random_token();
    Router::new()
        .route("/console", get(redirect_to_tasks))
        .route("/console/", get(redirect_to_tasks))
        .route(TASKS, get(list_tasks))
        .route("/console/tasks/{id}", get(show_task))
        .route("/console/tasks/{id}/{action}", get(redirect_to_task).post(post_action))
        .route("/console/state", get(show_version))
        .route("/console/sign-in", get(sign_in::show).post(sign_in::sign_in))
        .route("/console/sign-out", get(redirect_to_tasks).post(sign_in::sign_out))
        .layer(middleware::map_response(add_security_headers))
        .with_state(Arc::new(InboxPages { engine, bodies, sessions, local_token }))
}

async fn add_security_headers(mut response: Response) -> Response {
    nuncio_http::pages::headers::guard_private(response.headers_mut());
    response
}

/// `GET /console`
async fn redirect_to_tasks(page: PageRequest) -> Response {
    see(&page.link(TASKS))
}

/// `GET /console/tasks`: the open tasks. `after` names the task of the visitor's last action.
async fn list_tasks(State(inbox): State<Arc<InboxPages>>, page: PageRequest) -> Response {
    let Some(visitor) = page.visitor(&inbox) else { return page.redirect_to_sign_in(TASKS) };
    let after = match page.query.after.as_deref().and_then(|id| TaskId::parse(id).ok()) {
        Some(id) => inbox.engine.inbox().task(&id).await.ok(),
        None => None,
    };
    match inbox.engine.inbox().open_tasks().await {
        Ok(tasks) => {
            let frame = page.frame(TASKS, Some(visitor));
            let version = version_of_all(&tasks);
            written(StatusCode::OK, &InboxPage::new(frame, tasks, after.as_ref(), version, inbox.engine.now()))
        }
        Err(error) => page.error_page(Some(visitor), &error),
    }
}

/// `GET /console/tasks/:id`
async fn show_task(State(inbox): State<Arc<InboxPages>>, Path(id): Path<String>, page: PageRequest) -> Response {
    let Some(visitor) = page.visitor(&inbox) else { return page.redirect_to_sign_in(&task_path(&id)) };
    match find_task(&inbox, &id).await {
        Ok(task) => task_page(&inbox, &page, visitor, &task, StatusCode::OK, FailedFormSubmission::default()),
        Err(error) => page.error_page(Some(visitor), &error),
    }
}

/// `GET /console/tasks/:id/:action`, as after a reload of a posted form.
async fn redirect_to_task(Path((id, _)): Path<(String, String)>, page: PageRequest) -> Response {
    see(&page.link(&task_path(&id)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TaskAction {
    Take,
    GiveBack,
    Finish,
    Refuse,
}

impl TaskAction {
    fn parse(segment: &str) -> Option<Self> {
        Some(match segment {
            "take" => Self::Take,
            "give-back" => Self::GiveBack,
            "finish" => Self::Finish,
            "refuse" => Self::Refuse,
            _ => return None,
        })
    }
}

/// `POST /console/tasks/:id/:action`
async fn post_action(
    State(inbox): State<Arc<InboxPages>>,
    Path((id, action)): Path<(String, String)>,
    mut post: SameOriginForm,
) -> Result<Response, Response> {
    let Some(visitor) = post.page.visitor(&inbox) else { return Ok(see(&post.page.sign_in_link(&task_path(&id)))) };
    // The cookie identified the visitor, so the limits of an identified caller apply to the body.
    let fields = post.read_fields(&inbox, Some(&visitor), CredentialLocation::Body).await?;
    let found = match TaskAction::parse(&action) {
        Some(action) => find_task(&inbox, &id).await.map(|task| (action, task)),
        None => Err(EngineError::new(ErrorCode::TaskNotFound, "there is nothing at this address")),
    };
    Ok(match found {
        Ok((action, task)) => perform_action(&inbox, &post.page, visitor, task, action, &fields).await,
        Err(error) => post.page.error_page(Some(visitor), &error),
    })
}

/// Performs the action and shows its outcome. A page after a failure shows the typed text again.
async fn perform_action(
    inbox: &InboxPages,
    page: &PageRequest,
    visitor: PageVisitor,
    task: HumanTask,
    action: TaskAction,
    fields: &[(String, String)],
) -> Response {
    let texts = Texts::of(page.language);
    let mut form = TaskForm::of(task.form.as_ref(), &texts.form);
    let is_filled = TaskForm::is_in(fields);
    if is_filled {
        form.fill(fields);
    }
    let reason: String = field(fields, "reason").unwrap_or_default().trim().chars().take(MAX_REASON).collect();
    let attempt = |form: TaskForm, notice: Option<String>| FailedFormSubmission {
        notice,
        form: is_filled.then_some(form),
        reason: reason.clone(),
    };
    if !visitor.has_token(fields) {
        let attempt = attempt(form, Some(texts.task.stale.clone()));
        return task_page(inbox, page, visitor, &task, StatusCode::FORBIDDEN, attempt);
    }
    let command = match action {
        TaskAction::Take => TaskCommand::Take { over: field(fields, "over").is_some() },
        TaskAction::GiveBack => TaskCommand::GiveBack,
        TaskAction::Refuse => TaskCommand::Refuse(reason.clone()),
        TaskAction::Finish => match form.result(&texts.form) {
            Some(output) => TaskCommand::Finish(output),
            None => {
                let attempt = FailedFormSubmission { form: Some(form), ..FailedFormSubmission::default() };
                return task_page(inbox, page, visitor, &task, StatusCode::UNPROCESSABLE_ENTITY, attempt);
            }
        },
    };
    let issuer = OperatorCommandIssuer { principal: visitor.principal.clone(), account: None };
    let record = inbox.engine.records().command_record(command.action(), &issuer);
    let record = AuditEventRecord { subject: Some(task.id.to_string()), ..record };
    let outcome = inbox.engine.inbox().step_task(&task.id, command, &visitor.name);
    match inbox.engine.records().run_recorded(record, outcome, |_| None).await {
        // A visitor who took over a task with a half-filled form continues with that form.
        Ok(task) if action == TaskAction::Take && is_filled => {
            task_page(inbox, page, visitor, &task, StatusCode::OK, attempt(form, None))
        }
        Ok(task) if action == TaskAction::Take => see(&page.link(&task_path(task.id.as_str()))),
        Ok(task) => see(&page.link(&format!("{TASKS}?after={}", task.id))),
        Err(error) if matches!(error.code, ErrorCode::TaskClosed | ErrorCode::InvalidOutput) => {
            let task = inbox.engine.inbox().task(&task.id).await.unwrap_or(task);
            let notice = match (&error.code, holder(&task)) {
                (ErrorCode::InvalidOutput, _) => texts.task.broken.replace("{why}", &error.message),
                _ if task.state.is_over() || task.due <= inbox.engine.now() => texts.task.already_over.clone(),
                (_, Some(by)) if by != visitor.name => texts.task.already_taken.replace("{name}", by),
                _ => texts.task.not_yours.clone(),
            };
            let status = if error.code == ErrorCode::TaskClosed {
                StatusCode::CONFLICT
            } else {
                StatusCode::UNPROCESSABLE_ENTITY
            };
            task_page(inbox, page, visitor, &task, status, attempt(form, Some(notice)))
        }
        Err(error) => page.error_page(Some(visitor), &error),
    }
}

fn task_page(
    inbox: &InboxPages,
    page: &PageRequest,
    visitor: PageVisitor,
    task: &HumanTask,
    status: StatusCode,
    attempt: FailedFormSubmission,
) -> Response {
    let frame = page.frame(&task_path(task.id.as_str()), Some(visitor));
    written(status, &TaskPage::new(frame, task, attempt, version_of(task), inbox.engine.now()))
}

/// `GET /console/state`: the version of the list, or of one task. Scripts poll it, so it does not extend the session.
async fn show_version(State(inbox): State<Arc<InboxPages>>, page: PageRequest) -> Response {
    if inbox.visitor(page.identity.as_ref(), &page.headers, SessionRenewal::Peek).is_none() {
        return (StatusCode::UNAUTHORIZED, Json(json!({"code": ErrorCode::Unauthorized}))).into_response();
    }
    let version = match &page.query.task {
        Some(id) => find_task(&inbox, id).await.map(|task| version_of(&task)),
        None => inbox.engine.inbox().open_tasks().await.map(|tasks| version_of_all(&tasks)),
    };
    match version {
        Ok(version) => Json(json!({"version": version})).into_response(),
        Err(error) => (StatusCode::NOT_FOUND, Json(json!({"code": error.code}))).into_response(),
    }
}

fn version_of(task: &HumanTask) -> String {
    Digest::of_json(&json!([task.id, task.state])).to_string()
}

fn version_of_all(tasks: &[HumanTask]) -> String {
    let states: Vec<_> = tasks.iter().map(|task| json!([task.id, task.state])).collect();
    Digest::of_json(&states.into()).to_string()
}

async fn find_task(inbox: &InboxPages, id: &str) -> Result<HumanTask, EngineError> {
    let id = TaskId::parse(id).map_err(|error| EngineError::new(ErrorCode::TaskNotFound, error.to_string()))?;
    inbox.engine.inbox().task(&id).await
}

/// The path of a task, or of the task list if the id is invalid.
fn task_path(id: &str) -> String {
    TaskId::parse(id).map_or_else(|_| TASKS.to_owned(), |id| format!("{TASKS}/{id}"))
}
