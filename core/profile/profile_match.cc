#include "core/profile/profile_match.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace dpipe {
namespace {

template <typename T>
absl::Status CheckSame(const std::string& thing, const T& stored, const T& here) {
  if (stored == here) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(thing, " is ", stored, " in the stored file, but ", here, " here"));
}

// Returns the kind of a device: "1-core CPU device" for "2 x 1-core CPU device".
std::string KindOfDevice(const std::string& name) {
  const size_t times = name.find(" x ");
  return times == std::string::npos ? name : name.substr(times + 3);
}

absl::Status CheckLayer(const std::string& thing, const LayerProfile& stored,
                        const LayerProfile& here) {
  DPIPE_RETURN_IF_ERROR(CheckSame(absl::StrCat(thing, ": the name"), stored.name(), here.name()));
  const std::string layer = absl::StrCat(thing, " (", here.name(), ")");
  DPIPE_RETURN_IF_ERROR(CheckSame(absl::StrCat(layer, ": the kind"), LayerKind_Name(stored.kind()),
                                  LayerKind_Name(here.kind())));
  DPIPE_RETURN_IF_ERROR(CheckSame(absl::StrCat(layer, ": the size of the parameters in bytes"),
                                  stored.parameter_bytes(), here.parameter_bytes()));
  return CheckSame(absl::StrCat(layer, ": the size of the trained parameters in bytes"),
                   stored.trainable_parameter_bytes(), here.trainable_parameter_bytes());
}

absl::Status CheckValue(const std::string& thing, const ValueProfile& stored,
                        const ValueProfile& here) {
  DPIPE_RETURN_IF_ERROR(CheckSame(absl::StrCat(thing, ": the name"), stored.name(), here.name()));
  const std::string value = absl::StrCat(thing, " (", here.name(), ")");
  DPIPE_RETURN_IF_ERROR(CheckSame(absl::StrCat(value, ": the bytes of a sample"),
                                  stored.bytes_per_sample(), here.bytes_per_sample()));
  // Compares the rest: producer and consumer layers, and source.
  return CheckSame(value, absl::StrCat("{", stored.ShortDebugString(), "}"),
                   absl::StrCat("{", here.ShortDebugString(), "}"));
}

absl::Status CheckComponent(const ComponentProfile& stored, const ComponentProfile& here) {
  const std::string name = here.name();
  DPIPE_RETURN_IF_ERROR(CheckSame(absl::StrCat(name, ": whether it is a backbone"),
                                  stored.is_backbone(), here.is_backbone()));
  DPIPE_RETURN_IF_ERROR(CheckSame(absl::StrCat(name, ": the number of layers"),
                                  stored.layers_size(), here.layers_size()));
  for (int l = 0; l < here.layers_size(); ++l) {
    DPIPE_RETURN_IF_ERROR(
        CheckLayer(absl::StrCat(name, ", layer ", l), stored.layers(l), here.layers(l)));
  }
  DPIPE_RETURN_IF_ERROR(CheckSame(absl::StrCat(name, ": the number of values"),
                                  stored.values_size(), here.values_size()));
  for (int v = 0; v < here.values_size(); ++v) {
    DPIPE_RETURN_IF_ERROR(
        CheckValue(absl::StrCat(name, ", value ", v), stored.values(v), here.values(v)));
  }
  return CheckSame(absl::StrCat(name, ": the bytes that self-conditioning feeds back"),
                   stored.self_conditioning_bytes_per_sample(),
                   here.self_conditioning_bytes_per_sample());
}

// Returns the local batches at which all layers were timed.
std::set<int> TimedBatches(const ComponentProfile& component) {
  std::set<int> timed;
  for (int l = 0; l < component.layers_size(); ++l) {
    std::set<int> own;
    for (const LayerTiming& timing : component.layers(l).timings()) {
      if (l == 0 || timed.count(timing.local_batch()) > 0) own.insert(timing.local_batch());
    }
    timed = std::move(own);
  }
  return timed;
}

absl::Status CheckBatches(const ModelProfile& stored, const ComponentProfile& backbone,
                          const std::vector<int>& local_batches) {
  const std::set<int> timed = TimedBatches(backbone);
  for (int batch : local_batches) {
    if (timed.count(batch) > 0) continue;
    const bool is_beyond = timed.empty() || batch > *timed.rbegin();
    if (is_beyond &&
        absl::StrContains(stored.provenance(), LocalBatchesEndText(backbone.name(), batch) + ",")) {
      return absl::OkStatus();  // this applies to all larger ones too
    }
    return absl::FailedPreconditionError(absl::StrCat(
        backbone.name(), " was timed with local batches of ", absl::StrJoin(timed, ", "),
        " in the stored file, but here plans may have ", absl::StrJoin(local_batches, ", ")));
  }
  return absl::OkStatus();
}

std::vector<std::string> Names(const ModelProfile& profile) {
  std::vector<std::string> names;
  for (const ComponentProfile& component : profile.components()) names.push_back(component.name());
  return names;
}

}  // namespace

std::string LocalBatchesEndText(const std::string& component, int local_batch) {
  return absl::StrCat("local batches of ", component, " end before ", local_batch);
}

absl::Status CheckProfileMatches(const ModelProfile& stored, const ModelProfile& described,
                                 const std::vector<int>& local_batches) {
  DPIPE_RETURN_IF_ERROR(CheckSame("the list of components", absl::StrJoin(Names(stored), ", "),
                                  absl::StrJoin(Names(described), ", ")));
  DPIPE_RETURN_IF_ERROR(CheckSame("the dtype", stored.dtype(), described.dtype()));
  for (int i = 0; i < described.components_size(); ++i) {
    DPIPE_RETURN_IF_ERROR(CheckComponent(stored.components(i), described.components(i)));
  }
  DPIPE_RETURN_IF_ERROR(
      CheckSame("the device", KindOfDevice(stored.device()), KindOfDevice(described.device())));
  const auto& components = described.components();
  const bool has_frozen = std::any_of(components.begin(), components.end(),
                                      [](const auto& c) { return !c.is_backbone(); });
  if (has_frozen) {
    DPIPE_RETURN_IF_ERROR(
        CheckSame("the frozen quantum", stored.frozen_quantum(), described.frozen_quantum()));
  }
  for (const ComponentProfile& component : stored.components()) {
    if (!component.is_backbone()) continue;
    DPIPE_RETURN_IF_ERROR(CheckBatches(stored, component, local_batches));
  }
  return absl::OkStatus();
}

absl::Status CheckClusterMatches(const ClusterSpec& stored, int num_devices, bool on_cpus) {
  DPIPE_RETURN_IF_ERROR(CheckSame("the number of devices",
                                  stored.num_nodes() * stored.devices_per_node(), num_devices));
  if (stored.collectives() != ClusterSpec::EXACT) {
    return absl::FailedPreconditionError(
        "it prices NCCL's collectives, but training runs the project's own, which are exact and "
        "take longer between nodes: remove `collectives: NCCL` to plan what is run");
  }
  const auto kind = [](bool uses_compute) {
    return std::string(uses_compute ? "CPUs" : "devices that compute while they communicate");
  };
  return CheckSame("the kind of devices", kind(stored.collectives_use_compute()), kind(on_cpus));
}

}  // namespace dpipe
