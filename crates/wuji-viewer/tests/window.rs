//! The window on a virtual display: Xvfb, an X server that renders to memory. A second client takes screenshots.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wuji_viewer::{Button, Event, Key, Picture, Viewer};
use x11rb::connection::Connection;
use x11rb::protocol::xproto::{self, ConnectionExt as _, ImageFormat, Window};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

/// A virtual display that ends with the test.
struct Xvfb {
    server: Child,
    name: String,
}

impl Xvfb {
    /// `None` if Xvfb is not installed. `cargo xtask test` installs it if possible, and then requires it by
    /// `WUJI_REQUIRE_XVFB`.
    fn start() -> Option<Xvfb> {
        let server = Command::new("Xvfb")
            .args([
                "-displayfd",
                "1",
                "-screen",
                "0",
                "640x480x24",
                "-nolisten",
                "tcp",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut server = match server {
            Ok(server) => server,
            Err(error) if std::env::var_os("WUJI_REQUIRE_XVFB").is_some() => {
                panic!("Xvfb: {error}")
            }
            Err(error) => {
                eprintln!("skipped, no Xvfb: {error}");
                return None;
            }
        };
        let mut line = String::new();
        let output = server.stdout.take().expect("piped");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("the number of the display");
        let name = format!(":{}", line.trim());
        Some(Xvfb { server, name })
    }

    fn end(&mut self) {
        self.server.kill().expect("ended");
        self.server.wait().expect("waited for");
    }
}

impl Drop for Xvfb {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// A simulated user.
struct Person {
    connection: RustConnection,
    root: Window,
}

impl Person {
    fn at(display: &str) -> Person {
        let (connection, screen) = x11rb::connect(Some(display)).expect("a second client");
        let root = connection.setup().roots[screen].root;
        Person { connection, root }
    }

    /// The pixels of a part of the screen.
    fn screenshot(&self, width: u16, height: u16) -> Picture {
        let image = self
            .connection
            .get_image(ImageFormat::Z_PIXMAP, self.root, 0, 0, width, height, !0)
            .expect("sent")
            .reply()
            .expect("a screenshot");
        let bytes = &image.data;
        Picture::from_fn(width.into(), height.into(), |x, y| {
            let at = 4 * (y * usize::from(width) + x);
            [bytes[at + 2], bytes[at + 1], bytes[at]]
        })
    }

    fn does(&self, event: u8, detail: u8, x: i16, y: i16) {
        self.connection
            .xtest_fake_input(event, detail, 0, self.root, x, y, 0)
            .expect("sent")
            .check()
            .expect("done");
    }

    /// The code of the key with this keysym.
    fn code(&self, keysym: u32) -> u8 {
        let setup = self.connection.setup();
        let (first, last) = (setup.min_keycode, setup.max_keycode);
        let keys = self
            .connection
            .get_keyboard_mapping(first, last - first + 1)
            .expect("sent")
            .reply()
            .expect("the keyboard");
        let columns = usize::from(keys.keysyms_per_keycode);
        let at = keys
            .keysyms
            .chunks(columns)
            .position(|k| k[0] == keysym)
            .expect("such a key");
        first + at as u8
    }

    /// The only window, and its title.
    fn window(&self) -> (Window, String) {
        let tree = self
            .connection
            .query_tree(self.root)
            .expect("sent")
            .reply()
            .expect("windows");
        let window = *tree.children.last().expect("a window");
        let name = xproto::AtomEnum::WM_NAME;
        let any = xproto::AtomEnum::ANY;
        let title = self
            .connection
            .get_property(false, window, name, any, 0, 99)
            .expect("sent");
        let title = title.reply().expect("a title").value;
        (window, String::from_utf8(title).expect("text"))
    }
}

/// A picture in which all neighbouring pixels differ.
fn picture(seed: usize) -> Picture {
    Picture::from_fn(320, 200, |x, y| {
        [(x * 7 + seed) as u8, (y * 11) as u8, (x ^ y) as u8]
    })
}

/// Shows the picture until a condition holds; returns the events.
fn show_until(
    viewer: &mut Viewer,
    picture: &Picture,
    done: impl Fn(&Viewer, &[Event]) -> bool,
) -> Vec<Event> {
    let start = Instant::now();
    let mut seen = Vec::new();
    while !done(viewer, &seen) {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{seen:?} {:?}",
            viewer.without_window()
        );
        viewer.show(picture).expect("shown");
        seen.extend(viewer.events());
    }
    seen
}

#[test]
fn the_screen_shows_the_picture() {
    let Some(xvfb) = Xvfb::start() else { return };
    let mut viewer = Viewer::builder("first light")
        .display(&xvfb.name)
        .fps(120.0)
        .build()
        .expect("a viewer");
    assert_eq!(viewer.without_window(), None);
    let person = Person::at(&xvfb.name);
    for seed in [0, 100] {
        let picture = picture(seed);
        show_until(&mut viewer, &picture, |_, _| {
            person.screenshot(320, 200) == picture
        });
    }
    let (window, title) = person.window();
    assert_eq!(title, "first light");
    viewer.set_title("second light");
    show_until(&mut viewer, &picture(100), |_, _| {
        person.window().1 == "second light"
    });

    // Twice as large, with a bar below, because the aspect ratios differ.
    let size = xproto::ConfigureWindowAux::new().width(640).height(440);
    person
        .connection
        .configure_window(window, &size)
        .expect("sent")
        .check()
        .expect("resized");
    let mut expected = picture(7).enlarged(2);
    let bar = 640 * 20;
    expected.pixels.splice(0..0, vec![[0; 3]; bar]);
    expected.pixels.extend(vec![[0; 3]; bar]);
    expected.height += 40;
    show_until(&mut viewer, &picture(7), |_, _| {
        person.screenshot(640, 440) == expected
    });

    // A covered window is redrawn without a new frame.
    person
        .connection
        .clear_area(true, window, 0, 0, 0, 0)
        .expect("sent")
        .check()
        .expect("cleared");
    let start = Instant::now();
    while person.screenshot(640, 440) != expected {
        assert!(start.elapsed() < Duration::from_secs(20));
        viewer.events();
    }
}

#[test]
fn windows_open_where_the_program_wants() {
    let Some(xvfb) = Xvfb::start() else { return };
    let mut viewer = Viewer::builder("placed")
        .display(&xvfb.name)
        .position([30, 20])
        .fps(120.0)
        .build()
        .expect("a viewer");
    let person = Person::at(&xvfb.name);
    let picture = picture(3);
    let expected = Picture::from_fn(200, 100, |x, y| {
        if x < 30 || y < 20 {
            [0; 3]
        } else {
            picture.pixels[(y - 20) * 320 + x - 30]
        }
    });
    show_until(&mut viewer, &picture, |_, _| {
        person.screenshot(200, 100) == expected
    });
}

#[test]
fn keys_and_the_mouse_are_events() {
    let Some(xvfb) = Xvfb::start() else { return };
    let mut viewer = Viewer::builder("events")
        .display(&xvfb.name)
        .fps(200.0)
        .build()
        .expect("a viewer");
    let person = Person::at(&xvfb.name);
    let picture = picture(0);
    show_until(&mut viewer, &picture, |_, _| {
        person.screenshot(320, 200) == picture
    });
    // Without a window manager, the test has to set the input focus.
    let (window, _) = person.window();
    let focus =
        person
            .connection
            .set_input_focus(xproto::InputFocus::PARENT, window, x11rb::CURRENT_TIME);
    focus.expect("sent").check().expect("focused");

    person.does(xproto::MOTION_NOTIFY_EVENT, 0, 80, 50);
    person.does(xproto::BUTTON_PRESS_EVENT, 1, 0, 0);
    let key = person.code(0x61);
    let shift = person.code(0xffe1);
    person.does(xproto::KEY_PRESS_EVENT, shift, 0, 0);
    person.does(xproto::KEY_PRESS_EVENT, key, 0, 0);
    show_until(&mut viewer, &picture, |viewer, _| {
        viewer.is_key_down(Key::Char('A'))
    });
    assert!(viewer.is_button_down(Button::Left) && viewer.is_key_down(Key::Shift));
    let [x, y] = viewer.pointer().expect("a pointer");
    assert!(
        (x - 0.25).abs() < 0.01 && (y - 0.75).abs() < 0.01,
        "{x} {y}"
    );

    person.does(xproto::KEY_RELEASE_EVENT, key, 0, 0);
    person.does(xproto::KEY_RELEASE_EVENT, shift, 0, 0);
    person.does(xproto::BUTTON_RELEASE_EVENT, 1, 0, 0);
    person.does(xproto::BUTTON_PRESS_EVENT, 4, 0, 0);
    let seen = show_until(&mut viewer, &picture, |_, seen| {
        seen.iter()
            .any(|event| matches!(event, Event::Scroll { by, .. } if *by == 1.0))
    });
    assert!(!viewer.is_button_down(Button::Left), "{seen:?}");
    assert!(!viewer.is_key_down(Key::Char('A')) && !viewer.is_key_down(Key::Shift));

    person.does(xproto::KEY_PRESS_EVENT, person.code(0xff1b), 0, 0);
    let seen = show_until(&mut viewer, &picture, |viewer, _| !viewer.is_open());
    assert_eq!(seen.last(), Some(&Event::Close), "{seen:?}");
    assert_eq!(viewer.without_window(), Some("Escape was pressed"));
}

#[test]
fn a_lost_display_closes_the_window() {
    let Some(mut xvfb) = Xvfb::start() else {
        return;
    };
    let mut viewer = Viewer::builder("gone")
        .display(&xvfb.name)
        .fps(200.0)
        .build()
        .expect("a viewer");
    viewer.show(&picture(0)).expect("shown");
    assert!(viewer.is_open());
    xvfb.end();
    let seen = show_until(&mut viewer, &picture(1), |viewer, _| !viewer.is_open());
    assert_eq!(seen, [Event::Close]);
    let why = viewer.without_window().expect("a reason");
    assert!(
        why.starts_with("the connection to the display was lost"),
        "{why}"
    );
    viewer.set_title("still no panic");
    viewer.show(&picture(2)).expect("no error");
    assert_eq!(viewer.finish().expect("finished"), None);
}
