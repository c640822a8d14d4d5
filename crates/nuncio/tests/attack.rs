//! The quick attacks of `nuncio-attacks` against the binary of this build, one test each.

use libtest_mimic::{Arguments, Trial};
use nuncio_attacks::{AttackDurationClass, AttackedBinary, all};

fn main() {
    let arguments = Arguments::from_args();
    let quick = all().into_iter().filter(|attack| attack.pace == AttackDurationClass::Quick);
    let trials = quick.map(|attack| {
        Trial::test(attack.name, move || {
            let target = AttackedBinary::new(env!("CARGO_BIN_EXE_nuncio"));
            let runtime = tokio::runtime::Runtime::new()?;
            let result = runtime.block_on((attack.run)(target)).map_err(|error| format!("{error:#}"))?;
            println!("{result}");
            Ok(())
        })
    });
    libtest_mimic::run(&arguments, trials.collect()).exit();
}
