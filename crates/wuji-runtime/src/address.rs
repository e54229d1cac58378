//! Addresses of elements, computed on the host.
//!
//! A tree of dense nodes is separable: the offset of an element is a sum of one term per index and
//! node, so windows of a field are visited as runs with a constant stride along the last index.

use smallvec::SmallVec;
use wuji_ir::entities::Field;
use wuji_ir::layout::{Axis, CellOrder, FieldData, NodeData, TreeData, TreeMemory};

/// Where the elements of one field are in the memory of its tree.
#[derive(Clone, Debug)]
pub struct Address {
    base: u64,
    /// One per index of the field.
    axes: SmallVec<[AxisAddress; 3]>,
}

#[derive(Clone, Debug)]
struct AxisAddress {
    /// The smallest coordinate.
    from: i64,
    extent: u64,
    /// From the root down.
    levels: SmallVec<[Level; 2]>,
}

/// The term of one node: `(coordinate / divisor % extent) * stride`.
#[derive(Copy, Clone, Debug)]
struct Level {
    divisor: u64,
    extent: u64,
    stride: u64,
}

impl AxisAddress {
    fn offset(&self, at: u64) -> u64 {
        self.levels
            .iter()
            .map(|l| at / l.divisor % l.extent * l.stride)
            .sum()
    }

    /// The smallest and largest offset of the coordinates `lo..hi`. Strides of upper levels are never smaller than the
    /// size of what is below them, so offsets grow with coordinates.
    fn ends(&self, lo: u64, hi: u64) -> (u64, u64) {
        (self.offset(lo), self.offset(hi - 1))
    }

    /// Stride of neighbours, and how many neighbours from `at` on have it.
    fn run(&self, at: u64) -> (u64, u64) {
        match self.levels.last() {
            Some(innermost) => (innermost.stride, innermost.extent - at % innermost.extent),
            None => (0, 1),
        }
    }

    /// The stride of an axis that a single node splits.
    fn stride(&self) -> Option<u64> {
        match self.levels[..] {
            [level] => Some(level.stride),
            _ => None,
        }
    }
}

/// The terms of a node in Morton order, bit by bit from the highest. `below` is the extent of the axis from the node
/// down; returns the extent below the node.
fn bits(
    node: &NodeData,
    axis: Axis,
    cell: u64,
    mut below: u64,
    levels: &mut SmallVec<[Level; 2]>,
) -> u64 {
    let mut places = Vec::new();
    let mut place = 0;
    for bit in 0..u64::BITS {
        for (a, extent) in node.extents.iter().rev() {
            if extent >> bit > 1 {
                if *a == axis {
                    places.push(place);
                }
                place += 1;
            }
        }
    }
    for place in places.into_iter().rev() {
        below /= 2;
        levels.push(Level {
            divisor: below,
            extent: 2,
            stride: cell << place,
        });
    }
    below
}

/// Elements with a constant stride, a row-major part of a window.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The offset of the first element, in bytes.
    pub offset: usize,
    /// The distance of two elements, in bytes.
    pub stride: usize,
    /// The number of elements.
    pub count: usize,
}

impl Run {
    /// From the first byte of the first element to the last byte of the last one, for elements of
    /// `size` bytes.
    pub fn bytes(self, size: usize) -> std::ops::Range<usize> {
        self.offset..self.offset + self.stride * (self.count - 1) + size
    }
}

impl Address {
    /// The address of a field in the memory of its tree.
    pub fn of(tree: &TreeData, memory: &TreeMemory, field: Field, data: &FieldData) -> Address {
        let path = tree.path(data.node);
        let nodes: u64 = path.iter().map(|n| memory.node_offset[*n]).sum();
        let axes = data.axes.iter().map(|(axis, from)| {
            let mut levels = SmallVec::new();
            let mut below = tree.extent(data.node, *axis);
            for node in &path {
                if tree.nodes[*node].order == CellOrder::Morton {
                    let cell = memory.cell_size[*node];
                    below = bits(&tree.nodes[*node], *axis, cell, below, &mut levels);
                    continue;
                }
                let mut stride = memory.cell_size[*node];
                for (a, extent) in tree.nodes[*node].extents.iter().rev() {
                    if a == axis {
                        below /= extent;
                        levels.push(Level {
                            divisor: below,
                            extent: *extent,
                            stride,
                        });
                    }
                    stride *= extent;
                }
            }
            AxisAddress {
                from: *from,
                extent: tree.extent(data.node, *axis),
                levels,
            }
        });
        Address {
            axes: axes.collect(),
            base: nodes + memory.place(field),
        }
    }

    /// Smallest coordinate and extent of each index.
    pub fn domain(&self) -> impl Iterator<Item = (i64, u64)> {
        self.axes.iter().map(|axis| (axis.from, axis.extent))
    }

    /// Offset of an element that is inside.
    pub fn offset(&self, at: impl IntoIterator<Item = i64>) -> usize {
        let inside = self.axes.iter().zip(at);
        let terms = inside.map(|(axis, c)| axis.offset((c - axis.from) as u64));
        (self.base + terms.sum::<u64>()) as usize
    }

    /// From the first to the last byte of the elements of a window, for elements of `size` bytes.
    pub fn span(&self, window: &[(u64, u64)], size: usize) -> std::ops::Range<usize> {
        if window.iter().any(|(lo, hi)| lo >= hi) {
            return 0..0;
        }
        // A sum of one term per index: the least and the greatest of each.
        let (mut least, mut most) = (self.base, self.base);
        for (axis, (lo, hi)) in self.axes.iter().zip(window) {
            // Offsets grow with coordinates, also in Morton order.
            let ends = axis.ends(*lo, *hi);
            least += ends.0;
            most += ends.1;
        }
        least as usize..most as usize + size
    }

    /// The index that runs are along, and how many elements the indices after it have: those are collapsed into it when
    /// they are contiguous in memory.
    fn row(&self, window: &[(u64, u64)]) -> (usize, u64) {
        let mut inner = window.len().saturating_sub(1);
        let mut joined = 1;
        while inner > 0 {
            let (last, before) = (&self.axes[inner], &self.axes[inner - 1]);
            let whole = window[inner] == (0, last.extent);
            match (last.stride(), before.stride()) {
                (Some(s), Some(b)) if whole && b == s * last.extent => {
                    joined *= last.extent;
                    inner -= 1;
                }
                _ => break,
            }
        }
        (inner, joined)
    }

    /// Whether the elements of a window, of `size` bytes, are in row-major order without gaps.
    pub fn is_one_run(&self, window: &[(u64, u64)], size: usize) -> bool {
        let (inner, joined) = self.row(window);
        let alone = window[..inner.min(window.len())]
            .iter()
            .all(|(lo, hi)| hi - lo == 1);
        let Some((lo, hi)) = window.get(inner).copied() else {
            return true;
        };
        let (stride, count) = self.axes[inner].run(lo);
        alone && count >= hi - lo && (stride / joined == size as u64 || (hi - lo) * joined == 1)
    }

    /// Visits the elements with coordinates `lo..hi` on each index, in row-major order.
    pub fn runs(&self, window: &[(u64, u64)], mut visit: impl FnMut(Run)) {
        if window.iter().any(|(lo, hi)| lo >= hi) {
            return;
        }
        let (inner, joined) = self.row(window);
        let Some((lo, hi)) = window.get(inner).copied() else {
            return visit(Run {
                offset: self.base as usize,
                stride: 0,
                count: 1,
            });
        };
        let row = &self.axes[inner];
        let mut at: SmallVec<[u64; 4]> = window[..inner].iter().map(|w| w.0).collect();
        loop {
            let terms = self.axes.iter().zip(&at).map(|(axis, c)| axis.offset(*c));
            let start = self.base + terms.sum::<u64>();
            let mut c = lo;
            while c < hi {
                let (stride, count) = row.run(c);
                let count = count.min(hi - c);
                visit(Run {
                    offset: (start + row.offset(c)) as usize,
                    stride: (stride / joined) as usize,
                    count: (count * joined) as usize,
                });
                c += count;
            }
            // The next point of the outer indices, or the end.
            let mut k = inner;
            loop {
                if k == 0 {
                    return;
                }
                k -= 1;
                at[k] += 1;
                if at[k] < window[k].1 {
                    break;
                }
                at[k] = window[k].0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wuji_ir::text::parse;

    const LAYOUTS: &str = "\
tree T0 { dense S1 [i: 6, j: 8] { place f0 } }
tree T1 { dense S1 [i: 2, j: 2] { dense S2 [i: 4, j: 4] { place f1 } } }
tree T2 { dense S1 [i: 4, j: 4] { place f2, f3 } }
tree T3 { dense S1 [j: 4] { dense S2 [i: 4] { place f4 } } }
tree T4 { dense S1 [i: 16] { place f5 } }
tree T5 { place f6 }
tree T6 { dense S1 [i: 4, j: 4] morton { place f7 } }
field f0 \"a\": f32 in T0.S1 (i, j)
field f1 \"b\": f32 in T1.S2 (i, j)
field f2 \"c\": f32 in T2.S1 (i, j)
field f3 \"d\": f32 in T2.S1 (i, j)
field f4 \"e\": f32 in T3.S2 (i, j)
field f5 \"f\": f32x3 in T4.S1 (i)
field f6 \"g\": f64 in T5.S0 ()
field f7 \"h\": f32 in T6.S1 (i, j)
kernel fn0 \"k\"() { return }
";

    /// Windows of a field: the whole, one element, a row, a part of a row, several rows.
    fn windows(extents: &[u64]) -> Vec<Vec<(u64, u64)>> {
        let whole: Vec<(u64, u64)> = extents.iter().map(|e| (0, *e)).collect();
        let mut all = vec![whole.clone(), extents.iter().map(|_| (1, 2)).collect()];
        for k in 0..extents.len() {
            for (lo, hi) in [(0, 1), (1, 3), (1, extents[k])] {
                let mut window = whole.clone();
                window[k] = (lo, hi);
                all.push(window.clone());
                window[0] = (2, 3);
                all.push(window);
            }
        }
        all
    }

    #[test]
    fn one_run_is_what_runs_visit() {
        let module = parse(LAYOUTS, "layouts").unwrap();
        let mut found = [0, 0];
        for (field, data) in module.fields.iter() {
            let tree = &module.trees[data.tree];
            let memory = TreeMemory::of(tree, &module.fields, &module.structs).unwrap();
            let address = Address::of(tree, &memory, field, data);
            let size = module.structs.size_align(data.elem).0 as usize;
            let extents: Vec<u64> = address.domain().map(|d| d.1).collect();
            for window in windows(&extents) {
                let mut runs = Vec::new();
                address.runs(&window, |run| runs.push(run));
                let one = runs.len() == 1 && (runs[0].stride == size || runs[0].count == 1);
                assert_eq!(address.is_one_run(&window, size), one, "{field} {window:?}");
                found[usize::from(one)] += 1;
            }
        }
        assert!(found[0] > 10 && found[1] > 10, "{found:?}");
    }
}
