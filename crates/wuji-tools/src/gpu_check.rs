//! Tests the CUDA driver on a GPU, and reports the results.

use std::ffi::c_void;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Instant;
use wuji_ir::{Error, Result};
use wuji_runtime::cuda::driver::{
    CudaContext, CudaStream, DeviceBuffer, Function, Rows, Side, amount,
};

/// `y[i] += a * x[i]` for `i < n`.
const SAXPY: &str = "\
.version 6.0
.target sm_70
.address_size 64
.visible .entry saxpy(.param .u64 to, .param .u64 from, .param .f32 factor, .param .u32 count)
{
    .reg .pred %out;
    .reg .f32 %f<4>;
    .reg .b32 %r<5>;
    .reg .b64 %d<5>;
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r0, %r1, %r2;
    ld.param.u32 %r4, [count];
    setp.ge.u32 %out, %r3, %r4;
    @%out bra DONE;
    ld.param.u64 %d0, [to];
    ld.param.u64 %d1, [from];
    mul.wide.u32 %d2, %r3, 4;
    add.u64 %d3, %d0, %d2;
    add.u64 %d4, %d1, %d2;
    ld.param.f32 %f0, [factor];
    ld.global.f32 %f1, [%d4];
    ld.global.f32 %f2, [%d3];
    fma.rn.f32 %f3, %f0, %f1, %f2;
    st.global.f32 [%d3], %f3;
DONE:
    ret;
}
";

const COUNT: u32 = 1 << 20;
const THREADS: u32 = 256;

/// A failed test: an error, or a wrong result.
enum Wrong {
    Error(Error),
    Result(String),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Wrong {
        Wrong::Error(error)
    }
}

type Finding = std::result::Result<String, Wrong>;

/// Fails with a message unless a condition holds.
fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> std::result::Result<(), Wrong> {
    if holds {
        Ok(())
    } else {
        Err(Wrong::Result(otherwise()))
    }
}

/// Tests device 0 and prints a line for each test; returns whether all passed. An error means that there is no device
/// to test.
///
/// The last test makes the device fail on purpose: the process cannot use CUDA afterwards.
pub fn check(out: &mut dyn Write) -> Result<io::Result<bool>> {
    let context = CudaContext::new(0)?;
    let stream = context.stream()?;
    let module = context.load(SAXPY.as_bytes())?;
    let trial = Trial {
        saxpy: module.function(c"saxpy")?,
        context,
        stream,
    };
    Ok(trial.run(out))
}

/// State that the tests share.
struct Trial {
    context: Arc<CudaContext>,
    stream: CudaStream,
    saxpy: Function,
}

impl Trial {
    fn run(&self, out: &mut dyn Write) -> io::Result<bool> {
        let trials: [(&str, fn(&Trial) -> Finding); 15] = [
            ("device", Trial::device),
            ("function", Trial::function),
            ("copies", Trial::copies),
            ("rows", Trial::rows),
            ("launch", Trial::launch),
            ("machine code", Trial::machine_code),
            ("pinned memory", Trial::pinned),
            ("mapped memory", Trial::mapped),
            ("pages on demand", Trial::managed),
            ("streams and events", Trial::events),
            ("graph", Trial::graph),
            ("speed", Trial::speed),
            ("code that is wrong", Trial::wrong_code),
            ("too much memory", Trial::too_much),
            // The last one: nothing works afterwards.
            ("fault", Trial::fault),
        ];
        let mut good = true;
        for (name, trial) in trials {
            match trial(self) {
                Ok(reported) => writeln!(out, "ok      {name}: {reported}")?,
                Err(wrong) => {
                    good = false;
                    match wrong {
                        Wrong::Error(error) => writeln!(out, "FAILED  {name}: {error}")?,
                        Wrong::Result(text) => writeln!(out, "FAILED  {name}: {text}")?,
                    }
                }
            }
            out.flush()?;
        }
        Ok(good)
    }

    fn device(&self) -> Finding {
        let info = self.context.info();
        let (free, total) = self.context.free_memory()?;
        expect(free <= total && total > 0 && info.warp > 0, || {
            format!("{info:?}, {free} of {total} bytes free")
        })?;
        self.context.synchronize()?;
        let (major, minor) = info.capability;
        let (free, total) = (amount(free), amount(total));
        Ok(format!(
            "{}, sm_{major}{minor}, {} multiprocessors, {free} of {total} free",
            info.name, info.multiprocessors
        ))
    }

    fn function(&self) -> Finding {
        let attributes = self.saxpy.attributes()?;
        let blocks = self.saxpy.max_active_blocks(THREADS, 0)?;
        self.saxpy
            .set_max_dynamic_shared(self.context.info().shared_per_block)?;
        expect(attributes.threads >= THREADS && blocks > 0, || {
            format!("{attributes:?}, {blocks} blocks")
        })?;
        Ok(format!(
            "{} registers, {} bytes local, {} shared, {} threads at most, {blocks} blocks of {THREADS} at a time",
            attributes.registers,
            attributes.local_bytes,
            attributes.shared_bytes,
            attributes.threads
        ))
    }

    fn copies(&self) -> Finding {
        let bytes: Vec<u8> = (0..100_003u32).map(|i| (i * 7 % 251) as u8).collect();
        let size = bytes.len() as u64;
        let (a, b) = (self.context.alloc(size)?, self.context.alloc(size)?);
        let nothing = self.context.alloc(0)?;
        let mut back = vec![0; bytes.len()];
        // SAFETY: buffers have that size; they are dropped, and `back` read, after the stream has finished.
        unsafe {
            self.stream.fill(a.address(), size, 0xa5)?;
            self.stream.copy_in(a.address(), &bytes[..50_000])?;
            self.stream.copy(b.address(), a.address(), a.bytes())?;
            self.stream.fill_words(b.address(), 2, 0x0403_0201)?;
            self.stream.copy(nothing.address(), b.address(), 0)?;
            self.stream.copy_out(&mut back, b.address())?;
        }
        self.stream.synchronize()?;
        let mut expected = bytes;
        expected[50_000..].fill(0xa5);
        expected[..8].copy_from_slice(&[1, 2, 3, 4, 1, 2, 3, 4]);
        expect(back == expected, || "the bytes differ".into())?;
        Ok(format!("{size} bytes in, across, filled and out"))
    }

    fn rows(&self) -> Finding {
        let host: Vec<u8> = (0..96 * 64).map(|i| (i % 253) as u8).collect();
        let device = self.context.alloc(48 * 64)?;
        let other = self.context.alloc(40 * 64)?;
        let mut back = vec![0u8; 56 * 64];
        let rows = |to_stride, from_stride| Rows {
            bytes: 40,
            count: 64,
            to_stride,
            from_stride,
        };
        // SAFETY: all of them have 64 rows of that pitch; they are kept until the stream has finished.
        unsafe {
            let (there, elsewhere) = (
                Side::device(device.address()),
                Side::device(other.address()),
            );
            let stream = &self.stream;
            stream.copy_rows(there, Side::host(host.as_ptr()), rows(48, 96))?;
            stream.copy_rows(elsewhere, there, rows(40, 48))?;
            stream.copy_rows(Side::host(back.as_mut_ptr()), elsewhere, rows(56, 40))?;
        }
        self.stream.synchronize()?;
        for row in 0..64 {
            let (got, sent) = (&back[row * 56..][..56], &host[row * 96..][..40]);
            expect(
                got[..40] == *sent && got[40..].iter().all(|b| *b == 0),
                || format!("row {row} came back as {got:?}"),
            )?;
        }
        Ok("64 rows of 40 bytes with four pitches".into())
    }

    /// Launches saxpy.
    ///
    /// # Safety
    /// The memory has that many numbers, until the stream has finished.
    unsafe fn saxpy(&self, to: u64, from: u64, factor: f32, count: u32) -> Result<()> {
        let (mut to, mut from, mut factor, mut count) = (to, from, factor, count);
        let blocks = count.div_ceil(THREADS);
        let parameters: &mut [*mut c_void] = &mut [
            (&raw mut to).cast(),
            (&raw mut from).cast(),
            (&raw mut factor).cast(),
            (&raw mut count).cast(),
        ];
        // SAFETY: the parameters are those of the text above; the rest is guaranteed by the caller.
        unsafe {
            self.stream
                .launch(&self.saxpy, [blocks, 1, 1], [THREADS, 1, 1], 0, parameters)
        }
    }

    /// Two buffers of numbers: all 1, and all 2.
    fn numbers(&self) -> Result<(DeviceBuffer, DeviceBuffer)> {
        let bytes = u64::from(COUNT) * 4;
        let (x, y) = (self.context.alloc(bytes)?, self.context.alloc(bytes)?);
        // SAFETY: they have that size, and freeing waits for the stream.
        unsafe {
            self.stream
                .fill_words(x.address(), COUNT.into(), 1f32.to_bits())?;
            self.stream
                .fill_words(y.address(), COUNT.into(), 2f32.to_bits())?;
        }
        Ok((x, y))
    }

    /// Checks that all numbers of a buffer are equal to this one.
    fn all(&self, at: u64, value: f32) -> std::result::Result<(), Wrong> {
        let mut back = vec![0u8; COUNT as usize * 4];
        // SAFETY: there are that many bytes; they are read after the stream has finished.
        unsafe { self.stream.copy_out(&mut back, at)? };
        self.stream.synchronize()?;
        let wrong = back.chunks_exact(4).position(|b| *b != value.to_le_bytes());
        expect(wrong.is_none(), || {
            let at = wrong.unwrap_or(0) * 4;
            let got = f32::from_le_bytes([back[at], back[at + 1], back[at + 2], back[at + 3]]);
            format!("number {} is {got}, not {value}", at / 4)
        })
    }

    fn launch(&self) -> Finding {
        let (x, y) = self.numbers()?;
        // SAFETY: the buffers have that many numbers and live until the stream has finished.
        unsafe { self.saxpy(y.address(), x.address(), 3.0, COUNT)? };
        self.all(y.address(), 5.0)?;
        Ok(format!("saxpy of {COUNT} numbers"))
    }

    fn machine_code(&self) -> Finding {
        let start = Instant::now();
        let code = self.context.assemble(SAXPY.as_bytes())?;
        let time = start.elapsed();
        let module = self.context.load(&code)?;
        let trial = Trial {
            context: self.context.clone(),
            stream: self.context.stream()?,
            saxpy: module.function(c"saxpy")?,
        };
        trial.launch()?;
        let ms = time.as_secs_f64() * 1e3;
        Ok(format!(
            "{} bytes, assembled in {ms:.1} ms, loaded and run",
            code.len()
        ))
    }

    fn pinned(&self) -> Finding {
        let pinned = self.context.pinned(COUNT as usize * 4)?;
        let (x, y) = self.numbers()?;
        // SAFETY: there are that many numbers in each; the host reads after the stream has finished.
        unsafe { self.saxpy(pinned.device(), x.address(), 3.0, COUNT)? };
        self.stream.synchronize()?;
        // SAFETY: as above: the device is done, and the memory began as zeros.
        let seen = unsafe { std::slice::from_raw_parts(pinned.host(), pinned.bytes()) };
        let wrong = seen.chunks_exact(4).any(|b| *b != 3f32.to_le_bytes());
        expect(!wrong, || {
            "the host does not see what the device wrote".into()
        })?;
        // SAFETY: as above; the buffer has as many bytes.
        unsafe { self.stream.copy_in(y.address(), seen)? };
        self.all(y.address(), 3.0)?;
        Ok(format!(
            "{} written by the device, read by both",
            amount(seen.len() as u64)
        ))
    }

    /// A kernel reads zeros from pages that nothing has accessed before, and writes to them.
    fn managed(&self) -> Finding {
        if !self.context.info().pages_on_demand {
            return Ok("not supported: memory of sparse trees grows between launches".into());
        }
        let managed = self.context.managed(1 << 36)?;
        let (x, _y) = self.numbers()?;
        let bytes = u64::from(COUNT) * 4;
        let places = [1 << 20, 1 << 34];
        managed.prefetch(places[0]..places[0] + bytes, &self.stream)?;
        for at in places {
            // SAFETY: the range is a part of this memory, which stays until the stream has finished.
            unsafe { self.saxpy(managed.base() + at, x.address(), 4.0, COUNT)? };
            self.all(managed.base() + at, 4.0)?;
        }
        Ok(format!("{} of addresses", amount(managed.size())))
    }

    fn mapped(&self) -> Finding {
        let mut reserved = self.context.reserve(1 << 36)?;
        let granule = reserved.granule();
        expect(reserved.size() >= 1 << 36 && reserved.mapped() == 0, || {
            format!(
                "{} addresses, {} mapped",
                reserved.size(),
                reserved.mapped()
            )
        })?;
        let bytes = u64::from(COUNT) * 4;
        // Across the end of a granule, far from the start.
        let at = 5 * granule - 64;
        let first = reserved.ensure(at..at + bytes)?;
        let again = reserved.ensure(at..at + bytes)?;
        expect(first.len() == 1 && again.is_empty(), || {
            format!("mapped {first:?}, then {again:?}")
        })?;
        let around = reserved.ensure(0..10 * granule)?;
        expect(around.len() == 2, || {
            format!("around {first:?} it mapped {around:?}")
        })?;
        let mapped = reserved.mapped();
        expect(mapped >= 10 * granule, || {
            format!("{mapped} bytes are mapped")
        })?;
        let address = reserved.base() + at;
        let (x, _y) = self.numbers()?;
        // SAFETY: that much is mapped there, and stays until the stream has finished.
        unsafe {
            self.stream.fill(reserved.base(), 10 * granule, 0)?;
            self.saxpy(address, x.address(), 4.0, COUNT)?;
        }
        self.all(address, 4.0)?;
        let whole = reserved.ensure(0..128 << 20)?;
        let total = reserved.mapped();
        reserved.release()?;
        expect(reserved.mapped() == 0, || {
            "memory is left after it was released".into()
        })?;
        let back = reserved.ensure(0..1)?;
        expect(back.len() == 1 && back[0] == (0..granule), || {
            format!("mapped {back:?} after a release")
        })?;
        Ok(format!(
            "granules of {}, {} mapped in {} pieces",
            amount(granule),
            amount(total),
            first.len() + around.len() + whole.len()
        ))
    }

    fn events(&self) -> Finding {
        let other = self.context.stream()?;
        let (before, after) = (self.context.event()?, self.context.event()?);
        let passed = self.context.untimed_event()?;
        let (x, y) = self.numbers()?;
        self.stream.record(&before)?;
        for _ in 0..20 {
            // SAFETY: the buffers have that many numbers and live until the stream has finished.
            unsafe { self.saxpy(y.address(), x.address(), 1.0, COUNT)? };
        }
        self.stream.record(&after)?;
        self.stream.record(&passed)?;
        other.wait(&passed)?;
        let mut back = [0u8; 4];
        // SAFETY: as above; it is read after that stream has finished.
        unsafe { other.copy_out(&mut back, y.address())? };
        other.synchronize()?;
        let got = f32::from_le_bytes(back);
        expect(got == 22.0, || {
            format!("another stream, after waiting, reads {got}, not 22")
        })?;
        after.synchronize()?;
        let time = after.elapsed_ms(&before)?;
        expect(passed.done()? && self.stream.query()? && time > 0.0, || {
            format!("after the end: {time} ms")
        })?;
        // SAFETY: the stream outlives its second handle.
        let same = unsafe { self.context.foreign_stream(self.stream.raw()) };
        same.synchronize()?;
        expect(same.context().info() == self.context.info(), || {
            "another device".into()
        })?;
        Ok(format!("20 launches of saxpy took {time:.3} ms"))
    }

    fn graph(&self) -> Finding {
        let (x, y) = self.numbers()?;
        let graph = self.stream.capture(|stream| {
            for _ in 0..5 {
                // SAFETY: the buffers have that many numbers and outlive the graph.
                unsafe { self.saxpy(y.address(), x.address(), 1.0, COUNT)? };
            }
            // SAFETY: as above.
            unsafe { stream.fill_words(x.address(), 1, 0) }
        })?;
        self.all(y.address(), 2.0)?;
        for _ in 0..3 {
            // SAFETY: the buffers are still there, until the stream has finished.
            unsafe {
                self.stream
                    .fill_words(x.address(), COUNT.into(), 1f32.to_bits())?;
                self.stream.launch_graph(&graph)?;
            }
        }
        self.all(y.address(), 17.0)?;
        let failed = self
            .stream
            .capture(|_| Err(Error::new("W0521", "on purpose")));
        expect(failed.is_err(), || {
            "a capture that failed has made a graph".into()
        })?;
        self.all(y.address(), 17.0)?;
        Ok("captured, launched three times; a capture that fails leaves the stream usable".into())
    }

    fn speed(&self) -> Finding {
        const ROUNDS: u32 = 1000;
        let (x, y) = self.numbers()?;
        let micros = |start: Instant| start.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS);
        let mut per_launch = 0.0;
        let mut per_replay = 0.0;
        let graph = self.stream.capture(|_| {
            for _ in 0..ROUNDS {
                // SAFETY: the buffers have that many numbers and outlive the graph.
                unsafe { self.saxpy(y.address(), x.address(), 0.0, THREADS)? };
            }
            Ok(())
        })?;
        // The first round is a warm-up.
        for _ in 0..2 {
            self.stream.synchronize()?;
            let start = Instant::now();
            for _ in 0..ROUNDS {
                // SAFETY: the buffers have that many numbers and live until the stream has finished.
                unsafe { self.saxpy(y.address(), x.address(), 0.0, THREADS)? };
            }
            self.stream.synchronize()?;
            per_launch = micros(start);
            let start = Instant::now();
            // SAFETY: as above.
            unsafe { self.stream.launch_graph(&graph)? };
            self.stream.synchronize()?;
            per_replay = micros(start);
        }
        let start = Instant::now();
        for _ in 0..ROUNDS {
            drop(self.context.enter()?);
        }
        let enter = micros(start) * 1e3;
        Ok(format!(
            "{per_launch:.2} us per launch, {per_replay:.2} us in a graph, {enter:.0} ns to enter the context"
        ))
    }

    fn wrong_code(&self) -> Finding {
        let wrong = SAXPY.replace("fma.rn.f32", "nonsense.f32");
        let reported = [
            self.context.load(wrong.as_bytes()).err(),
            self.context.assemble(wrong.as_bytes()).err(),
        ];
        for error in &reported {
            let code = error.as_ref().map(|e| e.code);
            expect(code == Some("W0524"), || format!("the result was {code:?}"))?;
        }
        let missing = self
            .context
            .load(SAXPY.as_bytes())?
            .function(c"nothing")
            .err();
        let code = missing.map(|e| e.code);
        expect(code == Some("W0521"), || {
            format!("a missing kernel: {code:?}")
        })?;
        let notes = reported[0]
            .as_ref()
            .map_or(String::new(), |e| e.notes.join(" | "));
        Ok(format!("refused: {notes}"))
    }

    fn too_much(&self) -> Finding {
        let (_, total) = self.context.free_memory()?;
        let code = self.context.alloc(total * 2).err().map(|e| e.code);
        expect(code == Some("W0522"), || format!("a buffer: {code:?}"))?;
        let mut reserved = self.context.reserve(total * 2)?;
        let granule = reserved.granule();
        reserved.ensure(granule..2 * granule)?;
        let refused = reserved.ensure(0..total * 2).err();
        let code = refused.as_ref().map(|e| e.code);
        expect(
            code == Some("W0522") && reserved.mapped() == granule,
            || format!("mapping: {code:?}, {} bytes are mapped", reserved.mapped()),
        )?;
        let notes = refused.map_or(String::new(), |e| {
            format!("{} | {}", e.message, e.notes.join(" | "))
        });
        Ok(format!("refused: {notes}"))
    }

    /// A kernel that writes to an invalid address; afterwards all calls fail.
    fn fault(&self) -> Finding {
        let (x, _y) = self.numbers()?;
        // SAFETY: this address is unmapped, so nothing is overwritten; the driver stops the kernel.
        unsafe { self.saxpy(64, x.address(), 1.0, COUNT)? };
        let codes = [
            self.stream.synchronize().err(),
            self.context.alloc(64).err(),
            self.stream.query().err(),
            CudaContext::new(0).err(),
        ];
        for error in &codes {
            let code = error.as_ref().map(|e| e.code);
            expect(code == Some("W0523"), || format!("{code:?} and not W0523"))?;
        }
        let notes = codes[0]
            .as_ref()
            .map_or(String::new(), |e| e.notes.join(" | "));
        Ok(format!("remembered: {notes}"))
    }
}
