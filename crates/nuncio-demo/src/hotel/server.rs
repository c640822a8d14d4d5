use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, JsonObject, ListToolsResult,
        PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    },
    service::RequestContext,
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{HotelDatabase, HotelError, tools};
use crate::mcp::{arguments, refusal, unknown_tool};

/// MCP server with the hotel's tools on one ledger.
#[derive(Clone, Debug)]
pub struct HotelMcpServer {
    ledger: Arc<Mutex<HotelDatabase>>,
    tools: Arc<[Tool]>,
}

impl HotelMcpServer {
    /// Opens the ledger at `path`, creating it if needed.
    pub fn open(path: &Path) -> Result<Self, HotelError> {
        let ledger = Arc::new(Mutex::new(HotelDatabase::open(path)?));
        Ok(Self { ledger, tools: tools::all().into() })
    }

    async fn answer<A: DeserializeOwned + Send + 'static>(
        &self,
        call: Option<JsonObject>,
        tool: fn(&mut HotelDatabase, &A) -> Result<Value, HotelError>,
    ) -> CallToolResult {
        let call = match arguments(call) {
            Ok(call) => call,
            Err(message) => return refusal(message),
        };
        let ledger = Arc::clone(&self.ledger);
        let work = tokio::task::spawn_blocking(move || {
            // A call that panicked rolled its transaction back, so the ledger behind a poisoned lock is consistent.
            let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
            tool(&mut ledger, &call)
        });
        match work.await.unwrap_or(Err(HotelError::Dropped)) {
            Ok(answer) => CallToolResult::structured(answer),
            Err(error) => refusal(error),
        }
    }
}

impl ServerHandler for HotelMcpServer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(
                Implementation::new("nuncio-demo-hotel", env!("CARGO_PKG_VERSION")).with_title("Grand Hotel"),
            )
            .with_instructions(
                "The front desk of the Grand Hotel. Search for rooms first, then book one by its \
                 room_id. Prices are in euros.",
            )
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = request.arguments;
        let result = match request.name.as_ref() {
            "search_rooms" => self.answer(call, tools::search_rooms).await,
            "make_reservation" => self.answer(call, tools::make_reservation).await,
            "get_reservation" => self.answer(call, tools::get_reservation).await,
            "cancel_reservation" => self.answer(call, tools::cancel_reservation).await,
            other => return Err(unknown_tool(other)),
        };
        Ok(result.into())
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.iter().find(|tool| tool.name == name).cloned()
    }
}
