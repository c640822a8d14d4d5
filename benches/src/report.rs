//! Measurement of throughput and CPU time, and its output.

use std::time::Instant;

use crate::process::Server;

#[derive(Clone, Copy)]
pub(crate) struct ThroughputMeasurement {
    /// Operations per second of elapsed time.
    pub(crate) rate: f64,
    /// CPU time of the server per operation, in microseconds.
    pub(crate) cpu: f64,
}

/// Measures `work`, which performs `operations` operations.
pub(crate) async fn measure(
    server: &Server,
    operations: usize,
    work: impl Future<Output = anyhow::Result<()>>,
) -> anyhow::Result<ThroughputMeasurement> {
    let (cpu, began) = (server.cpu_micros(), Instant::now());
    work.await?;
    let seconds = began.elapsed().as_secs_f64();
    let operations = operations as f64;
    Ok(ThroughputMeasurement { rate: operations / seconds, cpu: (server.cpu_micros() - cpu) / operations })
}

pub(crate) fn row(what: &str, ours: ThroughputMeasurement, against: &str, theirs: ThroughputMeasurement) {
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
