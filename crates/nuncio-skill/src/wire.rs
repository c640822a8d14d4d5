//! What travels.
