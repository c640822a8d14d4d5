//! Treatment of requests without a credential, by the network exposure of the server.

/// The network exposure of the server, which decides how requests without a key are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkExposure {
    /// Reachable from this machine only; requests need no key until the first key is created.
    Loopback,
    /// Reachable from this machine only; requests need no key even if keys exist (`[access] loopback = "open"`).
    OpenLoopback,
    /// Reachable from this machine only; requests need a key even if none exists (`[access] loopback = "keys"`).
    ClosedLoopback,
    /// Reachable from the network; requests need a key.
    Network,
    /// Reachable from the network; requests without a key are anonymous, because the operator chose so.
    Open,
}

impl NetworkExposure {
    /// Whether requests must carry a key. `has_keys` says whether any key exists.
    #[must_use]
    pub const fn asks_for_keys(self, has_keys: bool) -> bool {
        match self {
            Self::Loopback => has_keys,
            Self::ClosedLoopback | Self::Network => true,
            Self::OpenLoopback | Self::Open => false,
        }
    }

    /// Whether requests without a credential count as `local`. `has_keys` says whether any key exists.
    #[must_use]
    pub const fn is_open_to_local(self, has_keys: bool) -> bool {
        match self {
            Self::Loopback => !has_keys,
            Self::OpenLoopback => true,
            Self::ClosedLoopback | Self::Network | Self::Open => false,
        }
    }
}
