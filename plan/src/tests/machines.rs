//! Peaks by format, and domains of fast links that are larger than a node.

use super::machine;
use crate::{Inputs, Layout, Machine, Precision};

/// 72 devices in a rack, four to a host, as GB200 NVL72.
fn rack() -> Machine {
    let block_formats = crate::BlockFormats { mxfp8: true, nvfp4: true };
    let peak = Machine {
        peak: 2500e12,
        peak_fp8: Some(5e15),
        peak_fp4: Some(1e16),
        block_formats,
        ..machine()
    };
    Machine { node: 4, domain: 72, link: 900e9, network: 50e9, ..peak }
}

#[test]
fn formats_have_the_peak_of_their_width() {
    let has = |machine: &Machine| Precision::ALL.map(|one| machine.peak_of(one));
    let eight = Some(5e15);
    assert_eq!(has(&rack()), [Some(2.5e15), eight, eight, eight, Some(1e16)]);
    assert_eq!(has(&machine()), [Some(312e12), None, None, None, None]);
}

#[test]
fn a_job_takes_as_many_devices_of_a_rack_as_divide_it() {
    let rack = rack();
    let blocks = [64, 128, 8192, 2496, 144, 96, 72, 40, 8, 1].map(|devices| rack.block(devices));
    assert_eq!(blocks, [64, 64, 64, 64, 72, 48, 72, 40, 72, 72]);
    // Of 2 x 73 devices none but 2 divide them: racks are full but for the last.
    assert_eq!(rack.block(146), 72);
    // A host is used whole.
    assert_eq!([8, 12, 16, 100].map(|devices| machine().block(devices)), [8; 4]);
    assert_eq!(Machine { node: 0, domain: 0, ..machine() }.block(8), 1);
}

#[test]
fn members_of_a_group_share_a_rack_in_numbers_that_divide_it() {
    let rack = rack();
    let members = |members, stride| rack.members_in_node(members, stride);
    assert_eq!([members(64, 1), members(72, 1), members(128, 1)], [64, 72, 64]);
    // Every eighth device: nine of a rack, but eight of each block of 64.
    assert_eq!([members(9, 8), members(16, 8), members(64, 8)], [9, 8, 8]);
    assert_eq!([members(2, 64), members(4, 100), members(0, 0)], [1, 1, 1]);
    // On hosts of eight it is as it was.
    let host = |members, stride| machine().members_in_node(members, stride);
    assert_eq!([host(12, 1), host(5, 3), host(4, 2), host(16, 16)], [8, 2, 4, 1]);
}

#[test]
fn groups_inside_a_rack_use_its_links_and_larger_ones_their_nics() {
    let rack = rack();
    let inside = rack.link * rack.efficiency.link;
    for (members, stride) in [(64, 1), (72, 1), (8, 8), (2, 32)] {
        assert_eq!(rack.ring(members, stride).to_bits(), inside.to_bits(), "{members} {stride}");
    }
    assert_eq!(rack.tensor_ring(64).to_bits(), inside.to_bits());
    let of_one = rack.network * rack.efficiency.ring;
    let near = |found: f64, expected: f64| (found / expected - 1.0).abs() < 1e-12;
    assert!(near(rack.ring(8, 64), of_one));
    assert!(near(rack.ring(16, 8), (8.0 * of_one).min(inside)));
    // 64 NICs together are faster than the links, which bound them.
    assert_eq!(rack.ring(128, 1).to_bits(), inside.to_bits());
    // The same groups cross hosts where a domain is a host.
    let hosts = Machine { domain: 4, ..rack.clone() };
    assert!(hosts.ring(64, 1) < rack.ring(64, 1) / 10.0);
    assert!(near(hosts.tensor_ring(8), 4.0 * hosts.network * hosts.efficiency.tensor_network));
}

#[test]
fn stages_of_one_block_hand_values_over_fast_links() {
    // Eight stages of sixteen devices each: four stages to a block of 64.
    let cluster = crate::Cluster { parts: vec![(rack(), 128)] };
    let (model, recipe) = (super::model(super::gpt(8, 1024, 8)), super::recipe(64));
    let new =
        |cluster| Layout::new(&super::setup([16, 1, 8]), &Inputs::new(&model, &recipe, cluster));
    let layout = new(&cluster).unwrap();
    assert_eq!((layout.spec.nodes, layout.spec.devices_per_node), (2, 4));
    assert_eq!(layout.devices, vec![0, 1, 2, 3, 4, 5, 6, 7]);
    let hosts = crate::Cluster { parts: vec![(Machine { domain: 4, ..rack() }, 128)] };
    let apart = new(&hosts).unwrap();
    assert_eq!((apart.spec.nodes, apart.spec.devices_per_node), (8, 1));
    assert_eq!(apart.spec.inter.bandwidth, layout.spec.inter.bandwidth);
}
