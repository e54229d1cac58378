//! Pictures of scenes, by their pixels.

use super::*;
use crate::framebuffer::opaque;

const SIZE: usize = 96;
const RED: [f32; 4] = [1.0, 0.0, 0.0, 1.0];
const GREEN: [f32; 4] = [0.0, 1.0, 0.0, 1.0];

/// Four units from the origin: a unit there is 48 / (4 tan 22.5°) = 28.97 pixels.
fn scene() -> Scene {
    let mut scene = Scene::new(Camera {
        position: [0.0, 0.0, 4.0],
        look_at: [0.0; 3],
        ..Camera::default()
    });
    scene.ambient_light([1.0; 3]);
    scene
}

fn drawn(scene: &Scene) -> (Vec<Pixel>, Vec<f32>) {
    let mut frame = Framebuffer::new(SIZE, SIZE, opaque(0));
    let mut depth = vec![0.0; SIZE * SIZE];
    scene.draw(&mut frame, &mut depth).expect("it can be drawn");
    (frame.pixels().to_vec(), depth)
}

fn at(pixels: &[Pixel], x: usize, y: usize) -> Pixel {
    pixels[x * SIZE + y]
}

fn spheres(centers: &[Vec3], radius: f32, colors: Colors) -> Particles {
    Particles {
        centers: centers.to_vec(),
        radii: Radii::All(radius),
        colors,
    }
}

fn mesh(vertices: &[Vec3], color: [f32; 4]) -> Mesh {
    Mesh {
        vertices: vertices.to_vec(),
        indices: None,
        normals: None,
        colors: Colors::All(color),
        two_sided: false,
        wireframe: false,
        instances: None,
    }
}

/// A square in the plane of `z`, facing the camera.
fn square(half: f32, z: f32, color: [f32; 4]) -> Mesh {
    let [a, b, c, d] = [
        [-half, -half, z],
        [half, -half, z],
        [half, half, z],
        [-half, half, z],
    ];
    Mesh {
        indices: Some(vec![0, 1, 2, 0, 2, 3]),
        ..mesh(&[a, b, c, d], color)
    }
}

fn covered(pixels: &[Pixel]) -> usize {
    pixels.iter().filter(|p| p[..3] != [0.0; 3]).count()
}

#[test]
fn squares_have_the_size_of_their_projection() {
    let mut scene = scene();
    scene.mesh(square(1.0, 0.0, RED)).expect("a good mesh");
    let (pixels, depth) = drawn(&scene);
    // 57.94 pixels wide.
    assert_eq!(covered(&pixels), 58 * 58);
    assert_eq!(at(&pixels, 48, 48), RED);
    assert_eq!(at(&pixels, 18, 48), opaque(0));
    // 0.1 (1000 - 4) / (4 * 999.9)
    assert!((depth[48 * SIZE + 48] - 0.024_902).abs() < 1e-5);
    assert_eq!(depth[0], 0.0);
}

#[test]
fn the_nearest_surface_is_seen_in_any_order() {
    for near_first in [false, true] {
        let mut scene = scene();
        let squares = [square(0.5, 1.0, GREEN), square(1.0, 0.0, RED)];
        let [a, b] = squares;
        let order = if near_first { [a, b] } else { [b, a] };
        order
            .into_iter()
            .for_each(|m| scene.mesh(m).expect("a good mesh"));
        let (pixels, _) = drawn(&scene);
        assert_eq!(at(&pixels, 48, 48), GREEN);
        assert_eq!(at(&pixels, 22, 48), RED);
    }
}

#[test]
fn meshes_that_cross_are_cut() {
    let mut scene = scene();
    scene.mesh(square(1.0, 0.0, RED)).expect("a good mesh");
    // From left behind to right before.
    let slanted = [
        [-1.0, -1.0, -1.0],
        [1.0, -1.0, 1.0],
        [1.0, 1.0, 1.0],
        [-1.0, 1.0, -1.0],
    ];
    let slanted = Mesh {
        indices: Some(vec![0, 1, 2, 0, 2, 3]),
        ..mesh(&slanted, GREEN)
    };
    scene.mesh(slanted).expect("a good mesh");
    let (pixels, _) = drawn(&scene);
    assert_eq!(at(&pixels, 46, 48), RED);
    assert_eq!(at(&pixels, 49, 48), GREEN);
}

#[test]
fn colors_are_correct_in_perspective() {
    // A floor: halfway in space is not halfway in the picture.
    let mut scene = scene();
    let floor = [
        [-1.0, -1.0, 2.0],
        [1.0, -1.0, 2.0],
        [1.0, -1.0, -20.0],
        [-1.0, -1.0, -20.0],
    ];
    let (near, far) = ([0.0, 0.0, 0.0, 1.0], [1.0; 4]);
    scene
        .mesh(Mesh {
            indices: Some(vec![0, 1, 2, 0, 2, 3]),
            colors: Colors::Each(vec![near, near, far, far]),
            ..mesh(&floor, RED)
        })
        .expect("a good mesh");
    let (pixels, _) = drawn(&scene);
    // The row y sees the floor at a distance of 115.88 / (48 - y - 0.5).
    for y in [2, 20, 36] {
        let distance = 115.88 / (48.0 - y as f32 - 0.5);
        let expected = (distance - 2.0) / 22.0;
        let found = at(&pixels, 48, y)[0];
        assert!((found - expected).abs() < 0.01, "{y}: {found} {expected}");
    }
}

#[test]
fn normals_are_lit_from_one_side_or_both() {
    let lit = |two_sided, normals: Option<Vec<Vec3>>| {
        let mut scene = scene();
        scene.ambient_light([0.25; 3]);
        scene.point_light([0.0, 0.0, 100.0], [0.5; 3]);
        let mesh = Mesh {
            two_sided,
            normals,
            ..square(1.0, 0.0, [1.0; 4])
        };
        scene.mesh(mesh).expect("a good mesh");
        at(&drawn(&scene).0, 48, 48)[0]
    };
    assert!((lit(false, None) - 0.75).abs() < 1e-3);
    let away = Some(vec![[0.0, 0.0, -3.0]; 4]);
    assert!((lit(false, away.clone()) - 0.25).abs() < 1e-3);
    assert!((lit(true, away) - 0.75).abs() < 1e-3);
    let slanted = Some(vec![[0.6, 0.0, 0.8]; 4]);
    assert!((lit(false, slanted) - 0.65).abs() < 1e-3);
}

#[test]
fn spheres_are_round_and_lit() {
    let mut scene = scene();
    scene.ambient_light([0.0; 3]);
    scene.point_light([0.0, 0.0, 1000.0], [1.0; 3]);
    let particles = spheres(&[[0.0; 3]], 1.0, Colors::All([1.0; 4]));
    scene.particles(particles).expect("good particles");
    let (pixels, depth) = drawn(&scene);
    // The cone of its tangents has a radius of 115.88 / sqrt(15) pixels.
    let area = std::f32::consts::PI * 115.88_f32.powi(2) / 15.0;
    assert!((covered(&pixels) as f32 - area).abs() < 0.01 * area);
    assert!(at(&pixels, 48, 48)[0] > 0.99);
    // At 15 pixels, the normal is at an angle to the light.
    let found = at(&pixels, 48 + 15, 48)[0];
    let ray = 15.5_f32 / 115.88;
    let closest = 4.0 / (1.0 + ray * ray);
    let t = closest - ((1.0 - ray * ray * 4.0 * closest) / (1.0 + ray * ray)).sqrt();
    assert!((found - (4.0 - t)).abs() < 0.01, "{found} {}", 4.0 - t);
    // 3 units away.
    let expected = 0.1 * (1000.0 - 3.0) / (3.0 * 999.9);
    assert!((depth[48 * SIZE + 48] - expected).abs() < 1e-4);
}

#[test]
fn spheres_cut_each_other() {
    let mut scene = scene();
    let particles = spheres(
        &[[-0.5, 0.0, 0.0], [0.5, 0.0, 0.0]],
        1.0,
        Colors::Each(vec![RED, GREEN]),
    );
    scene.particles(particles).expect("good particles");
    let (pixels, _) = drawn(&scene);
    assert_eq!([at(&pixels, 47, 48), at(&pixels, 48, 48)], [RED, GREEN]);
}

#[test]
fn small_spheres_are_like_large_ones() {
    // The same picture from far away, and enlarged: rays are nearly parallel in both. A light that is near needs exact directions.
    let picture = |distance: f32, light: f32| {
        let mut scene = scene();
        scene.ambient_light([0.1; 3]);
        scene.point_light([light, 0.5 * light, light], [0.8; 3]);
        scene.camera.position = [0.0, 0.0, distance];
        let fov = 2.0 * (0.2 / distance).atan().to_degrees();
        scene.camera.projection = Projection::Perspective { fov };
        let particles = spheres(
            &[[-0.04, 0.0, 0.0], [0.06, 0.01, 0.02], [0.1, -0.05, -0.03]],
            0.1,
            Colors::Each(vec![RED, GREEN, [0.0, 0.0, 1.0, 1.0]]),
        );
        scene.particles(particles).expect("good particles");
        drawn(&scene).0
    };
    // 0.1 of 6.5 and of 6.3 is just small and just not small.
    let (small, exact) = (picture(6.5, 50.0), picture(6.3, 50.0));
    assert!(covered(&small) > 2000);
    let differs = |a: &Pixel, b: &Pixel| (0..3).any(|k| (a[k] - b[k]).abs() > 0.05);
    let count = |a: &[Pixel], b: &[Pixel]| a.iter().zip(b).filter(|(a, b)| differs(a, b)).count();
    assert!(count(&small, &exact) < 40, "{}", count(&small, &exact));
    assert!(count(&small, &picture(6.5, 3.3)) < 80);
}

#[test]
fn tiny_spheres_are_one_pixel() {
    let mut scene = scene();
    let particles = spheres(
        &[[0.3, 0.2, 0.0], [0.0, 0.0, -900.0]],
        1e-3,
        Colors::All(RED),
    );
    scene.particles(particles).expect("good particles");
    let (pixels, _) = drawn(&scene);
    assert_eq!(covered(&pixels), 2);
    assert_eq!(at(&pixels, 56, 53), RED);
}

#[test]
fn radii_that_are_not_positive_hide_particles() {
    let mut scene = scene();
    let particles = Particles {
        radii: Radii::Each(vec![0.0, -1.0, f32::NAN, f32::INFINITY]),
        ..spheres(&[[0.0; 3]; 4], 1.0, Colors::All(RED))
    };
    scene.particles(particles).expect("good particles");
    assert_eq!(covered(&drawn(&scene).0), 0);
}

#[test]
fn orthographic_spheres_and_squares_do_not_shrink() {
    let mut scene = scene();
    scene.camera.projection = Projection::Orthographic {
        left: -2.0,
        right: 2.0,
        bottom: -2.0,
        top: 2.0,
    };
    scene.mesh(square(1.0, -50.0, RED)).expect("a good mesh");
    let particles = spheres(
        &[[0.0, 0.0, -100.0], [0.0, 1.5, -3.0]],
        0.25,
        Colors::All(GREEN),
    );
    scene.particles(particles).expect("good particles");
    let (pixels, depth) = drawn(&scene);
    let red = pixels.iter().filter(|p| **p == RED).count();
    assert_eq!(red, 48 * 48);
    let green = pixels.iter().filter(|p| **p == GREEN).count() as f32;
    assert!((green - std::f32::consts::PI * 36.0).abs() < 5.0, "{green}");
    assert_eq!(at(&pixels, 48, 84), GREEN);
    assert!((depth[48 * SIZE + 48] - (1000.0 - 54.0) / 999.9).abs() < 1e-5);
}

#[test]
fn lines_have_their_width_and_depth() {
    let mut scene = scene();
    scene.mesh(square(0.5, 1.0, RED)).expect("a good mesh");
    let lines = Lines {
        vertices: vec![
            [-1.0, 0.0, 0.0],
            [1.0, 0.0, 0.0],
            [0.0, -1.0, 2.0],
            [0.0, 1.0, 2.0],
        ],
        indices: Some(vec![0, 1, 2, 3]),
        width: 4.0,
        colors: Colors::All(GREEN),
    };
    scene.lines(lines).expect("good lines");
    let (pixels, _) = drawn(&scene);
    // Behind the square, and before it.
    assert_eq!(at(&pixels, 40, 48), RED);
    assert_eq!(at(&pixels, 24, 48), GREEN);
    assert_eq!(at(&pixels, 48, 40), GREEN);
    let thick = (0..SIZE).filter(|y| at(&pixels, 24, *y)[1] > 0.5).count();
    assert_eq!(thick, 4);
}

#[test]
fn wireframes_show_edges_only() {
    let mut scene = scene();
    let wire = Mesh {
        wireframe: true,
        ..square(1.0, 0.0, RED)
    };
    scene.mesh(wire).expect("a good mesh");
    let (pixels, _) = drawn(&scene);
    assert!(at(&pixels, 48, 19)[0] > 0.5, "the lower edge");
    assert!(at(&pixels, 48, 48)[0] > 0.5, "the diagonal");
    assert_eq!(at(&pixels, 60, 40), opaque(0));
}

#[test]
fn instances_are_transformed() {
    let mut scene = scene();
    let shifted = |x: f32, size: f32| {
        [
            [size, 0.0, 0.0, x],
            [0.0, size, 0.0, 0.0],
            [0.0, 0.0, 1.0, 0.0],
            [0.0, 0.0, 0.0, 1.0],
        ]
    };
    let mesh = Mesh {
        instances: Some(vec![shifted(-1.0, 0.5), shifted(1.0, 0.25)]),
        ..square(1.0, 0.0, RED)
    };
    scene.mesh(mesh).expect("a good mesh");
    let (pixels, _) = drawn(&scene);
    assert_eq!(at(&pixels, 48, 48), opaque(0));
    let (left, right) = pixels.split_at(48 * SIZE);
    assert_eq!([covered(left), covered(right)], [29 * 28, 14 * 14]);
}

#[test]
fn what_crosses_the_near_plane_is_clipped() {
    let mut scene = scene();
    // A floor that reaches behind the camera.
    let floor = [
        [-9.0, -1.0, 50.0],
        [9.0, -1.0, 50.0],
        [9.0, -1.0, -50.0],
        [-9.0, -1.0, -50.0],
    ];
    let floor = Mesh {
        indices: Some(vec![0, 1, 2, 0, 2, 3]),
        ..mesh(&floor, RED)
    };
    scene.mesh(floor).expect("a good mesh");
    let lines = Lines {
        vertices: vec![
            [0.5, 0.0, 40.0],
            [0.5, 0.5, -40.0],
            [0.0, 0.0, 5.0],
            [0.0, 0.0, 9.0],
        ],
        indices: None,
        width: 2.0,
        colors: Colors::All(GREEN),
    };
    scene.lines(lines).expect("good lines");
    // Around the eye: its inside is not drawn.
    let particles = spheres(&[[0.0, 0.0, 4.0]], 2.0, Colors::All([1.0; 4]));
    scene.particles(particles).expect("good particles");
    let (pixels, _) = drawn(&scene);
    assert!((0..40).all(|y| at(&pixels, 40, y) == RED));
    assert_eq!(at(&pixels, 10, 60), opaque(0));
    assert!(pixels.contains(&GREEN));
    assert!(pixels.iter().all(|p| *p != [1.0; 4]));
}

#[test]
fn alpha_lets_through_what_was_drawn_before() {
    let mut scene = scene();
    scene.mesh(square(1.0, 0.0, RED)).expect("a good mesh");
    let glass = square(0.5, 1.0, [0.0, 1.0, 0.0, 0.5]);
    scene.mesh(glass).expect("a good mesh");
    assert_eq!(at(&drawn(&scene).0, 48, 48), [0.5, 0.5, 0.0, 1.0]);
}

#[test]
fn pictures_do_not_depend_on_chunks_and_strips() {
    // More primitives than a chunk, in a picture of several strips; drawn again, it is the same.
    let mut scene = scene();
    scene.point_light([1.0, 2.0, 3.0], [0.7; 3]);
    let mut seed = 1u32;
    let mut random = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / (1 << 24) as f32 * 2.0 - 1.0
    };
    let centers: Vec<Vec3> = (0..9000).map(|_| [random(), random(), random()]).collect();
    let colors = centers.iter().map(|c| [c[0].abs(), c[1].abs(), 0.5, 1.0]);
    let particles = Particles {
        colors: Colors::Each(colors.collect()),
        ..spheres(&centers, 0.03, Colors::All(RED))
    };
    scene.particles(particles).expect("good particles");
    scene.mesh(mesh(&centers, GREEN)).expect("a good mesh");
    let (pixels, depth) = drawn(&scene);
    assert!(covered(&pixels) > 3000);
    assert_eq!(drawn(&scene), (pixels, depth));
}

#[test]
fn extreme_coordinates_are_skipped_or_clipped() {
    let odd = [f32::NAN, f32::INFINITY, f32::MAX, -1e30, 1e9, 0.0, 1e-40];
    for x in odd {
        for y in odd {
            for z in odd {
                let mut scene = scene();
                let corners = [[x, y, z], [1.0, 0.0, y], [0.0, z, x]];
                for wireframe in [false, true] {
                    let mesh = Mesh {
                        wireframe,
                        ..mesh(&corners, RED)
                    };
                    scene.mesh(mesh).expect("a good mesh");
                }
                let particles = Particles {
                    radii: Radii::Each(vec![x, y, z]),
                    ..spheres(&corners, 1.0, Colors::All(RED))
                };
                scene.particles(particles).expect("good particles");
                let lines = Lines {
                    vertices: vec![corners[0], corners[1]],
                    indices: None,
                    width: 1e30,
                    colors: Colors::All(RED),
                };
                scene.lines(lines).expect("good lines");
                scene.point_light(corners[0], [1.0; 3]);
                drawn(&scene);
            }
        }
    }
}

#[test]
fn parts_that_do_not_fit_are_errors() {
    let mut scene = scene();
    let good = square(1.0, 0.0, RED);
    let bad = [
        (
            Mesh {
                indices: Some(vec![0, 1]),
                ..good.clone()
            },
            "2 corners do not make whole triangles",
        ),
        (
            Mesh {
                indices: Some(vec![0, 1, 4]),
                ..good.clone()
            },
            "index 4 at position 2 has no vertex: there are 4",
        ),
        (
            Mesh {
                normals: Some(vec![]),
                ..good.clone()
            },
            "0 normals instead of 4",
        ),
        (
            Mesh {
                colors: Colors::Each(vec![RED]),
                ..good.clone()
            },
            "1 colors instead of 4",
        ),
    ];
    for (mesh, why) in bad {
        assert_eq!(
            scene.mesh(mesh).map_err(|e| e.to_string()),
            Err(why.to_string())
        );
    }
    assert_eq!(countable(1 << 26, 3), Err(SceneError::TooLarge));
    assert_eq!(countable(usize::MAX, 2), Err(SceneError::TooLarge));
    assert_eq!(countable(1 << 26, 2), Ok(()));
    let why =
        "all instances together have more than 2^27 vertices, or more than there is memory for";
    assert_eq!(SceneError::TooLarge.to_string(), why);
    for radius in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let particles = spheres(&[[0.0; 3]], radius, Colors::All(RED));
        let why = scene.particles(particles).map_err(|e| e.to_string());
        assert_eq!(
            why,
            Err(format!(
                "a radius must be positive and finite, not {radius}"
            ))
        );
    }
    let few = Particles {
        radii: Radii::Each(vec![1.0]),
        ..spheres(&[[0.0; 3]; 2], 1.0, Colors::All(RED))
    };
    let why = scene.particles(few).map_err(|e| e.to_string());
    assert_eq!(why, Err("1 radii instead of 2".to_string()));
    let lines = |indices, width| Lines {
        vertices: vec![[0.0; 3]; 3],
        indices,
        width,
        colors: Colors::All(RED),
    };
    for (lines, why) in [
        (lines(None, 1.0), "3 ends do not make whole lines"),
        (
            lines(Some(vec![0, 3]), 1.0),
            "index 3 at position 1 has no vertex: there are 3",
        ),
        (
            lines(Some(vec![]), 0.0),
            "a width must be positive and finite, not 0",
        ),
    ] {
        assert_eq!(
            scene.lines(lines).map_err(|e| e.to_string()),
            Err(why.to_string())
        );
    }
    assert!(scene.items.is_empty());
    let mut frame = Framebuffer::new(2, 2, opaque(0));
    let found = scene
        .draw(&mut frame, &mut [0.0; 3])
        .map_err(|e| e.to_string());
    assert_eq!(found, Err("3 depths instead of 4".to_string()));
    scene.camera.look_at = scene.camera.position;
    let found = scene
        .draw(&mut frame, &mut [0.0; 4])
        .map_err(|e| e.to_string());
    let why = "the camera shows nothing: it is at the point that it looks at";
    assert_eq!(found, Err(why.to_string()));
}

#[test]
fn taking_a_scene_keeps_camera_and_ambient_light() {
    let mut scene = scene();
    scene.point_light([1.0; 3], [1.0; 3]);
    scene.mesh(square(1.0, 0.0, RED)).expect("a good mesh");
    let whole = scene.clone();
    assert_eq!(scene.take(), whole);
    assert!(scene.items.is_empty() && scene.lights.is_empty());
    assert_eq!((scene.camera, scene.ambient), (whole.camera, whole.ambient));
}

#[test]
fn frames_without_pixels_stay_empty() {
    let mut scene = scene();
    scene.mesh(square(1.0, 0.0, RED)).expect("a good mesh");
    for (width, height) in [(0, 0), (0, 5), (5, 0)] {
        let mut frame = Framebuffer::new(width, height, opaque(0));
        assert_eq!(scene.draw(&mut frame, &mut []), Ok(()));
    }
}
