//! A 64-bit checksum.

/// A checksum of 64 bits. Every step is a bijection of the state and of its input word, so inputs of equal length that differ in only one word
/// never have the same checksum.
pub fn checksum(bytes: &[u8]) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15 ^ (bytes.len() as u64);
    let mut step = |word: u64| {
        state = (state ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd);
        state ^= state >> 32;
    };
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut own = [0; 8];
        own.copy_from_slice(word);
        step(u64::from_le_bytes(own));
    }
    let mut last = [0; 8];
    let rest = words.remainder();
    last[..rest.len()].copy_from_slice(rest);
    step(u64::from_le_bytes(last));
    state
}

#[cfg(test)]
mod tests {
    use super::checksum;

    #[test]
    fn every_byte_counts() {
        let text: Vec<u8> = (0..100).collect();
        let whole = checksum(&text);
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut other = text.clone();
                other[at] ^= 1 << bit;
                assert_ne!(checksum(&other), whole);
            }
            assert_ne!(checksum(&text[..at]), whole);
        }
    }
}
