//! How requests without a credential are treated.

/// The network exposure of the server, which decides how requests without a key are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkExposure {
    /// Reachable from this machine only; requests need no key until the first key is created.
    Loopback,
    /// Reachable from this machine only; requests need no key even if keys exist (`[access] loopback = "open"`).
    OpenLoopback,
    /// The network, with keys.
    Network,
    /// The network, without keys, on purpose.
    Open,
}

impl NetworkExposure {
    /// Whether a request must bring a key, given whether there are any.
    #[must_use]
    pub const fn asks_for_keys(self, has_keys: bool) -> bool {
        match self {
            Self::Loopback => has_keys,
            Self::Network => true,
            Self::OpenLoopback | Self::Open => false,
        }
    }

    /// Whether a request without a credential counts as `local`, given whether there are keys.
    #[must_use]
    pub const fn is_open_to_local(self, has_keys: bool) -> bool {
        match self {
            Self::Loopback => !has_keys,
            Self::OpenLoopback => true,
            Self::Network | Self::Open => false,
        }
    }
}
