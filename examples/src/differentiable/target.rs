//! The pattern that waves and smoke form.

/// The brightness of the taiji symbol at a position from 0 to 1 along each axis: 1 in its bright half, 0 in its dark half and outside.
pub fn taiji(x: f32, y: f32) -> f32 {
    let (x, y) = (2.4 * (x - 0.5), 2.4 * (y - 0.5));
    let within = |cy: f32, r: f32| x * x + (y - cy) * (y - cy) <= r * r;
    let bright = if within(0.5, 0.17) {
        false
    } else if within(-0.5, 0.17) || within(0.5, 0.5) {
        true
    } else if within(-0.5, 0.5) {
        false
    } else {
        x < 0.0
    };
    if bright && within(0.0, 1.0) { 1.0 } else { 0.0 }
}

/// The symbol on `n` by `n` cells, with soft edges: the mean of 4 x 4 samples in each cell, blurred `blur` times.
pub fn taiji_cells(n: usize, blur: usize) -> Vec<f32> {
    let sample = |cell: usize, k: usize| (cell as f32 + (k as f32 + 0.5) / 4.0) / n as f32;
    let brightness = |i: usize, j: usize| {
        let samples = (0..16).map(|k| taiji(sample(i, k / 4), sample(j, k % 4)));
        samples.sum::<f32>() / 16.0
    };
    let mut cells: Vec<f32> = (0..n * n).map(|k| brightness(k / n, k % n)).collect();
    for _ in 0..blur {
        let old = cells.clone();
        let at = |i: usize, j: usize| old[i.min(n - 1) * n + j.min(n - 1)];
        for (k, cell) in cells.iter_mut().enumerate() {
            let (i, j) = (k / n, k % n);
            let around = at(i + 1, j) + at(i.saturating_sub(1), j);
            let around = around + at(i, j + 1) + at(i, j.saturating_sub(1));
            *cell = 0.5 * at(i, j) + 0.125 * around;
        }
    }
    cells
}
