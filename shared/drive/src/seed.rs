//! One generator per purpose: a draw for one thing never moves the draws for
//! another.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// What a generator is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Pauses between attempts.
    Pauses,
    /// Payloads and choices of a workload.
    Inputs,
    /// The simulated cluster behind a rep.
    Simulator,
    /// Row ids of a run.
    Ids,
}

/// The generator of `purpose` for one member (a writer, a rep) of a run.
///
/// `seed` decides the run, `member` the place in it. ChaCha keeps streams of
/// one key apart, so members never share draws.
pub fn rng(seed: u64, purpose: Purpose, member: u64) -> ChaCha8Rng {
    let key = seed ^ (purpose as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut rng = ChaCha8Rng::seed_from_u64(key);
    rng.set_stream(member);
    rng
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn members_and_purposes_have_streams_of_their_own() {
        let first = |purpose, member| rng(7, purpose, member).next_u64();
        assert_eq!(first(Purpose::Pauses, 1), first(Purpose::Pauses, 1));
        assert_ne!(first(Purpose::Pauses, 1), first(Purpose::Pauses, 2));
        assert_ne!(first(Purpose::Pauses, 1), first(Purpose::Inputs, 1));
    }
}
