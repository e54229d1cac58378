//! Arrays of a launch that overlap each other.

use crate::array::ArrayArg;

/// Arrays that overlap each other, and the memory they span together.
#[derive(Debug)]
pub(crate) struct OverlapGroup {
    pub(crate) members: Vec<usize>,
    /// A multiple of 8, so that alignment in the copy is as in the original.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl OverlapGroup {
    pub(crate) fn all(arrays: &[ArrayArg<'_>]) -> Vec<OverlapGroup> {
        let mut spans: Vec<(usize, usize, usize)> = arrays
            .iter()
            .enumerate()
            .filter_map(|(k, a)| a.span().map(|(from, to)| (from, to, k)))
            .collect();
        spans.sort_unstable();
        let mut groups: Vec<OverlapGroup> = Vec::new();
        for (from, to, k) in spans {
            match groups.last_mut() {
                Some(group) if from < group.end => {
                    group.end = group.end.max(to);
                    group.members.push(k);
                }
                _ => groups.push(OverlapGroup {
                    members: vec![k],
                    start: from / 8 * 8,
                    end: to,
                }),
            }
        }
        groups
    }

    /// Bytes between the elements stay zero: they may belong to other data.
    pub(crate) fn copy_in(&self, arrays: &[ArrayArg<'_>]) -> Vec<u8> {
        let mut bytes = vec![0; self.end - self.start];
        for k in &self.members {
            let arg = &arrays[*k];
            arg.visit(|address, size| {
                let at = address as usize - self.start;
                // SAFETY: the element belongs to the array, which the launch has borrowed.
                let element = unsafe { std::slice::from_raw_parts(address, size) };
                bytes[at..at + size].copy_from_slice(element);
            });
        }
        bytes
    }

    pub(crate) fn copy_out(&self, arrays: &[ArrayArg<'_>], bytes: &[u8]) {
        for k in &self.members {
            let arg = &arrays[*k];
            if !arg.is_writable() {
                continue;
            }
            arg.visit(|address, size| {
                let at = address as usize - self.start;
                // SAFETY: as in `copy_in`, and the array may be written to.
                let element = unsafe { std::slice::from_raw_parts_mut(address, size) };
                element.copy_from_slice(&bytes[at..at + size]);
            });
        }
    }
}
