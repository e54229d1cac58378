//! Which words the fields of a node are packed in: as few bytes as possible.

use super::storage::{Storage, TunedField};

/// How the fields of one node are stored.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NodeLayout {
    /// Bits of a word.
    pub word: u32,
    /// Bit structs, each with one or more words. Numbers are packed in this order.
    pub packs: Vec<Pack>,
    /// Fields that are not packed.
    pub plain: Vec<usize>,
    /// Bytes of a cell.
    pub bytes: u64,
}

/// The fields of a bit struct.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Pack {
    /// Fields, and the word of each of their numbers.
    pub fields: Vec<(usize, Vec<usize>)>,
    /// The bits in use of each word.
    pub used: Vec<u32>,
}

/// More fields than that are packed in the order in which they come.
const MOST_PERMUTED: usize = 6;

/// The layout of a node with the fewest bytes, then the fewest words. `fields` are all fields, `members` those of the node.
pub(super) fn arrange(
    fields: &[TunedField],
    storages: &[Storage],
    members: &[usize],
) -> NodeLayout {
    let is_plain = |n: &&usize| storages[**n] == Storage::Plain;
    let plain: Vec<usize> = members.iter().filter(is_plain).copied().collect();
    let packed: Vec<usize> = members.iter().filter(|n| !is_plain(n)).copied().collect();
    let mut best: Option<(u64, usize, NodeLayout)> = None;
    for word in [64, 32, 16, 8] {
        partitions(&packed, &mut |parts| {
            let packs: Option<Vec<Pack>> = parts
                .iter()
                .map(|part| pack(fields, storages, part, word))
                .collect();
            let Some(packs) = packs else { return };
            let words = packs.iter().map(|p| p.used.len()).sum();
            let bytes = cell_bytes(fields, &plain, words, word);
            let is_better = best
                .as_ref()
                .is_none_or(|(b, w, _)| (bytes, words) < (*b, *w));
            if is_better {
                let layout = NodeLayout {
                    word,
                    packs,
                    plain: plain.clone(),
                    bytes,
                };
                best = Some((bytes, words, layout));
            }
        });
    }
    best.map(|b| b.2).unwrap_or_default()
}

/// Bytes of a cell, which is padded to its largest alignment.
fn cell_bytes(fields: &[TunedField], plain: &[usize], words: usize, word: u32) -> u64 {
    let mut bytes = words as u64 * u64::from(word / 8);
    let mut align = if words > 0 { u64::from(word / 8) } else { 1 };
    for n in plain {
        bytes += u64::from(fields[*n].plain_bits() / 8);
        align = align.max(fields[*n].compute.bytes().into());
    }
    bytes.next_multiple_of(align)
}

/// Packs fields one after the other, as layouts do: a number is in one word, and so are those that share an exponent.
fn pack(fields: &[TunedField], storages: &[Storage], members: &[usize], word: u32) -> Option<Pack> {
    let mut found = Pack::default();
    for n in members {
        let (storage, scalars) = (storages[*n], fields[*n].scalars());
        let mut at = Vec::new();
        if storage.is_shared() {
            let bits = storage.element_bits(&fields[*n]);
            at = vec![found.take(bits, word)?; scalars as usize];
        } else {
            for _ in 0..scalars {
                at.push(found.take(storage.bits(), word)?);
            }
        }
        found.fields.push((*n, at));
    }
    Some(found)
}

impl Pack {
    /// Takes bits of the last word, or of a new one; the number of the word.
    fn take(&mut self, bits: u32, word: u32) -> Option<usize> {
        if bits > word {
            return None;
        }
        match self.used.last_mut() {
            Some(used) if *used + bits <= word => *used += bits,
            _ => self.used.push(bits),
        }
        Some(self.used.len() - 1)
    }
}

/// All ways to divide a list; in each part, the order is that of the list.
fn partitions(all: &[usize], visit: &mut dyn FnMut(&[Vec<usize>])) {
    if all.len() > MOST_PERMUTED {
        visit(&[all.to_vec()]);
        visit(&all.iter().map(|n| vec![*n]).collect::<Vec<_>>());
        return;
    }
    divide(all, &mut Vec::new(), visit);
}

fn divide(left: &[usize], parts: &mut Vec<Vec<usize>>, visit: &mut dyn FnMut(&[Vec<usize>])) {
    let Some((first, rest)) = left.split_first() else {
        return visit(parts);
    };
    for k in 0..parts.len() {
        parts[k].push(*first);
        divide(rest, parts, visit);
        parts[k].pop();
    }
    parts.push(vec![*first]);
    divide(rest, parts, visit);
    parts.pop();
}

#[cfg(test)]
mod tests {
    use super::super::storage::Range;
    use super::*;
    use wuji_ir::types::Scalar;

    fn field(shape: &[usize]) -> TunedField {
        TunedField {
            name: "x".to_owned(),
            compute: Scalar::F32,
            shape: shape.to_vec(),
            node: 0,
            cells: 1,
            range: Range::default(),
        }
    }

    fn fixed(bits: u32) -> Storage {
        Storage::Fixed {
            bits,
            signed: true,
            max_value: 1.0,
        }
    }

    #[test]
    fn fields_are_packed_in_as_few_bytes_as_possible() {
        let fields = [field(&[3]), field(&[]), field(&[3])];
        // 63, 16 and 30 bits.
        let layout = arrange(&fields, &[fixed(21), fixed(16), fixed(10)], &[0, 1, 2]);
        assert_eq!((layout.bytes, layout.word), (16, 64));
        // The small ones share a word, although the large one is between them.
        let fields = [field(&[2]), field(&[3]), field(&[])];
        let layout = arrange(&fields, &[fixed(20), fixed(21), fixed(24)], &[0, 1, 2]);
        assert_eq!(layout.bytes, 16);
        let together = layout.packs.iter().map(|p| p.fields.len()).max();
        assert_eq!(together, Some(2), "{layout:?}");
    }

    #[test]
    fn words_are_no_larger_than_needed() {
        let fields = [field(&[])];
        for (bits, word) in [(5, 8), (8, 8), (9, 16), (17, 32)] {
            let layout = arrange(&fields, &[fixed(bits)], &[0]);
            assert_eq!((layout.word, layout.bytes), (word, u64::from(word / 8)));
        }
        // Nine numbers of 16 bits have no unused bits in words of 16 bits.
        let layout = arrange(&[field(&[3, 3])], &[fixed(16)], &[0]);
        assert_eq!(layout.bytes, 18);
        assert_eq!(layout.packs[0].fields[0].1, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn numbers_that_share_an_exponent_are_in_one_word() {
        let shared = Storage::SharedExponent {
            exponent: 5,
            fraction: 9,
            signed: false,
        };
        let fields = [field(&[]), field(&[3])];
        let layout = arrange(&fields, &[fixed(3), shared], &[0, 1]);
        // 32 bits, and 3 that do not fit beside them.
        assert_eq!(layout.bytes, 8);
        let at = &layout
            .packs
            .iter()
            .flat_map(|p| &p.fields)
            .find(|f| f.0 == 1);
        let at = &at.expect("the vector").1;
        assert!(at.iter().all(|w| *w == at[0]));
    }

    #[test]
    fn plain_fields_pad_the_cell() {
        let fields = [field(&[]), field(&[])];
        let layout = arrange(&fields, &[Storage::Plain, fixed(5)], &[0, 1]);
        assert_eq!((layout.bytes, &layout.plain[..]), (8, &[0][..]));
        assert_eq!(arrange(&fields, &[Storage::Plain; 2], &[0, 1]).bytes, 8);
    }
}
