//! `[[cluster]]`: machines, their number and their price.

use plan::{Cluster, Machine, Transformer};
use question::diagnostic::Diagnostic;

use crate::document::{ClusterDocument, PartDocument};
use crate::machines;
use crate::network::{self, Network};
use crate::reader::Reader;

/// The most devices of a cluster.
pub(crate) const MAX_DEVICES: u64 = 1 << 20;
/// The most clusters of a question.
const MAX_CLUSTERS: usize = 256;

/// The price of a machine that is paid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Paid {
    /// By the hour, without an obligation.
    OnDemand,
    /// For machines that are taken for long.
    Reserved,
    /// For machines that can be withdrawn at any time.
    Spot,
}

impl Reader<'_> {
    /// The clusters, each with its network where that was measured.
    pub(crate) fn clusters(
        &self,
        model: &Transformer,
    ) -> Result<(Vec<Cluster>, Vec<Option<Network>>), Diagnostic> {
        self.check_one_network()?;
        let (mut all, mut networks) = (Vec::new(), Vec::new());
        for (number, one) in self.document.cluster.iter().enumerate() {
            let (clusters, network) = self.cluster(&format!("cluster.{number}"), one, model)?;
            networks.extend(clusters.iter().map(|_| network.clone()));
            all.extend(clusters);
        }
        if all.is_empty() || all.len() > MAX_CLUSTERS {
            let message = format!("{} clusters: from 1 to {MAX_CLUSTERS}", all.len());
            return Err(self.wrong("cluster", message));
        }
        Ok((all, networks))
    }

    /// Checks that a network of all clusters is of one kind of machine.
    fn check_one_network(&self) -> Result<(), Diagnostic> {
        if self.document.network.is_none() {
            return Ok(());
        }
        let mut machines: Vec<_> = self.document.cluster.iter().map(|one| &one.machine).collect();
        machines.dedup();
        if machines.len() < 2 && machines.iter().all(|machine| machine.is_some()) {
            return Ok(());
        }
        let message =
            "network is measured on one kind of machine, and the clusters have several".to_owned();
        let cure = "give network in the table [[cluster]] of its machine";
        Err(self.wrong("network", message).with_help(cure))
    }

    /// The clusters of the table `one` at `path`.
    fn cluster(
        &self,
        path: &str,
        one: &ClusterDocument,
        model: &Transformer,
    ) -> Result<(Vec<Cluster>, Option<Network>), Diagnostic> {
        match (&one.machine, &one.devices, &one.parts) {
            (Some(name), Some(devices), None) => {
                let key = format!("{path}.machine");
                let named = machines::named(self.context, name, self.folder);
                let mut machine = named.map_err(|error| self.at(&key, error))?;
                if let Some(profile) = &one.profile {
                    let file = self.folder.join(profile);
                    let measured = machines::measured(self.context, &file, model);
                    let placed = |error| self.at(&format!("{path}.profile"), error);
                    machine.measured = Some(measured.map_err(placed)?);
                }
                self.set_price(&format!("{path}.price"), one.price, &mut machine)?;
                let network = self.measured_network(path, one, &mut machine)?;
                let key = format!("{path}.devices");
                let of = |&devices: &u64| {
                    self.check_devices(&key, devices)?;
                    Ok(Cluster { parts: vec![(machine.clone(), devices)] })
                };
                Ok((devices.iter().map(of).collect::<Result<_, Diagnostic>>()?, network))
            }
            (None, None, Some(parts))
                if one.profile.is_none() && one.price.is_none() && one.network.is_none() =>
            {
                Ok((vec![self.mixed(&format!("{path}.parts"), parts)?], None))
            }
            _ => {
                let message = "a cluster has a machine and its devices, or parts".to_owned();
                Err(self.wrong(path, message))
            }
        }
    }

    /// Replaces the rates of `machine` that the network of the cluster `one` at `path` has.
    fn measured_network(
        &self,
        path: &str,
        one: &ClusterDocument,
        machine: &mut Machine,
    ) -> Result<Option<Network>, Diagnostic> {
        let of_all = self.document.network.as_ref();
        let (key, file) = match (&one.network, of_all.map(|file| self.network_folder.join(file))) {
            (Some(file), _) => (format!("{path}.network"), self.folder.join(file)),
            (None, Some(file)) => ("network".to_owned(), file),
            (None, None) => return Ok(None),
        };
        let measured = network::measured(self.context, &file, machine);
        let (measured, network) = measured.map_err(|error| self.at(&key, error))?;
        *machine = measured;
        Ok(Some(network))
    }

    /// Sets the price of an hour of a device of `machine`, if one is given.
    fn set_price(
        &self,
        key: &str,
        given: Option<f64>,
        machine: &mut plan::Machine,
    ) -> Result<(), Diagnostic> {
        let Some(dollars) = self.within(key, given, [1e-6, 1e6])? else { return Ok(()) };
        let rate = machine.price.spot.map_or(0.0, |(_, rate)| rate);
        machine.price = plan::Price {
            on_demand: dollars,
            reserved: Some(dollars),
            spot: Some((dollars, rate)),
        };
        Ok(())
    }

    /// A cluster of several kinds of machines, those of the list `parts` at `path`.
    fn mixed(&self, path: &str, parts: &[PartDocument]) -> Result<Cluster, Diagnostic> {
        if parts.is_empty() {
            return Err(self.wrong(path, "parts is empty".to_owned()));
        }
        let parts = parts.iter().enumerate().map(|(number, part)| {
            let named = machines::named(self.context, &part.machine, self.folder);
            let key = format!("{path}.{number}.machine");
            let mut machine = named.map_err(|error| self.at(&key, error))?;
            self.set_price(&format!("{path}.{number}.price"), part.price, &mut machine)?;
            self.check_devices(&format!("{path}.{number}.devices"), part.devices)?;
            Ok((machine, part.devices))
        });
        Ok(Cluster { parts: parts.collect::<Result<_, Diagnostic>>()? })
    }

    pub(crate) fn check_devices(&self, key: &str, devices: u64) -> Result<(), Diagnostic> {
        if (1..=MAX_DEVICES).contains(&devices) {
            return Ok(());
        }
        Err(self.wrong(key, format!("{devices} devices: from 1 to {MAX_DEVICES}")))
    }

    pub(crate) fn paid(&self, clusters: &[Cluster]) -> Result<Paid, Diagnostic> {
        let paid = match self.document.price.as_deref() {
            None | Some("on-demand") => return Ok(Paid::OnDemand),
            Some("reserved") => Paid::Reserved,
            Some("spot") => Paid::Spot,
            Some(other) => {
                let message = format!("price is `{other}`: write on-demand, reserved or spot");
                return Err(self.wrong("price", message));
            }
        };
        let lacks = |machine: &plan::Machine| match paid {
            Paid::Spot => machine.price.spot.is_none(),
            _ => machine.price.reserved.is_none(),
        };
        let machines = clusters.iter().flat_map(|cluster| &cluster.parts);
        match machines.map(|(machine, _)| machine).find(|machine| lacks(machine)) {
            Some(machine) => {
                let message = format!("the machine {} has no such price", machine.name);
                Err(self.wrong("price", message))
            }
            None => Ok(paid),
        }
    }
}
