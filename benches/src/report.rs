//! Measuring and writing down.

use std::time::Instant;

use crate::process::Server;

/// What one measurement came to.
#[derive(Clone, Copy)]
pub(crate) struct Measured {
    /// Operations a second, by the clock on the wall.
    pub(crate) rate: f64,
    /// The server's CPU time an operation, in microseconds.
    pub(crate) cpu: f64,
}

/// Measures `operations` of them, done by `work`.
pub(crate) async fn measure(
    server: &Server,
    operations: usize,
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<Measured> {
    let (cpu, began) = (server.cpu_micros(), Instant::now());
    work.await?;
    let seconds = began.elapsed().as_secs_f64();
    let operations = operations as f64;
    Ok(Measured { rate: operations / seconds, cpu: (server.cpu_micros() - cpu) / operations })
}

/// A row of the table.
pub(crate) fn row(what: &str, ours: Measured, against: &str, theirs: Measured) {
    println!(
        "| {what} | {:.0}/s | {:.2} µs | {against} | {:.0}/s | {:.2} µs | {:.2} | {:.2} |",
        ours.rate,
        ours.cpu,
        theirs.rate,
        theirs.cpu,
        ours.rate / theirs.rate,
        ours.cpu / theirs.cpu
    );
}

pub(crate) fn heading() {
    println!("| what | ours | CPU each | against | theirs | CPU each | rate ratio | CPU ratio |");
    println!("|---|---|---|---|---|---|---|---|");
}
