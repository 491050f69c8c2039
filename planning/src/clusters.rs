//! `[[cluster]]`: machines, their number and their price.

use plan::{Cluster, Transformer};
use question::diagnostic::Diagnostic;

use crate::document::{ClusterDocument, PartDocument};
use crate::machines;
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
    pub(crate) fn clusters(&self, model: &Transformer) -> Result<Vec<Cluster>, Diagnostic> {
        let mut all = Vec::new();
        for (number, one) in self.document.cluster.iter().enumerate() {
            all.extend(self.cluster(&format!("cluster.{number}"), one, model)?);
        }
        if all.is_empty() || all.len() > MAX_CLUSTERS {
            let message = format!("{} clusters: from 1 to {MAX_CLUSTERS}", all.len());
            return Err(self.wrong("cluster", message));
        }
        Ok(all)
    }

    /// The clusters of the table `one` at `path`.
    fn cluster(
        &self,
        path: &str,
        one: &ClusterDocument,
        model: &Transformer,
    ) -> Result<Vec<Cluster>, Diagnostic> {
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
                let key = format!("{path}.devices");
                let of = |&devices: &u64| {
                    self.check_devices(&key, devices)?;
                    Ok(Cluster { parts: vec![(machine.clone(), devices)] })
                };
                devices.iter().map(of).collect()
            }
            (None, None, Some(parts)) if one.profile.is_none() && one.price.is_none() => {
                Ok(vec![self.mixed(&format!("{path}.parts"), parts)?])
            }
            _ => {
                let message = "a cluster has a machine and its devices, or parts".to_owned();
                Err(self.wrong(path, message))
            }
        }
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
