#include "core/schedule/schedule_traits.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe {
namespace {

ScheduleTraits Straight() { return {}; }

ScheduleTraits Single() {
  ScheduleTraits traits;
  traits.max_devices = 1;
  return traits;
}

ScheduleTraits ZeroBubble(bool takes_costs, int num_tried = 1) {
  ScheduleTraits traits;
  traits.splits_backward = true;
  traits.takes_costs = takes_costs;
  traits.num_tried = num_tried;
  return traits;
}

ScheduleTraits Interleaved() {
  ScheduleTraits traits;
  traits.stages_per_device = 2;
  traits.min_stages_per_device = 2;
  traits.takes_stages_per_device = true;
  traits.micro_batches_multiple_of_devices = true;
  return traits;
}

ScheduleTraits ZeroPp() {
  ScheduleTraits traits = ZeroBubble(/*takes_costs=*/true);
  traits.stages_per_device = 2;
  traits.takes_stages_per_device = true;
  return traits;
}

// Two stages per device in a V.
ScheduleTraits VShape(bool splits_backward, bool takes_costs, int num_tried = 1) {
  ScheduleTraits traits;
  traits.num_tried = num_tried;
  traits.stages_per_device = 2;
  traits.splits_backward = splits_backward;
  traits.takes_costs = takes_costs;
  return traits;
}

ScheduleTraits DualPipeV() {
  ScheduleTraits traits = VShape(/*splits_backward=*/true, /*takes_costs=*/false);
  traits.min_micro_batches_per_device = 2;
  return traits;
}

// Two chains in opposite directions.
ScheduleTraits Bidirectional(int stages_per_device) {
  ScheduleTraits traits;
  traits.min_devices = 2;
  traits.devices_multiple_of = 2;
  traits.micro_batches_multiple_of = 2;
  traits.stages_per_device = stages_per_device;
  traits.weight_copies = 2;
  traits.takes_costs = true;
  return traits;
}

ScheduleTraits Cascaded(bool splits_backward, int num_tried, int stages_per_device = 2) {
  ScheduleTraits traits;
  traits.num_tried = num_tried;
  traits.stages_per_device = stages_per_device;
  traits.num_backbones = 2;
  traits.splits_backward = splits_backward;
  traits.takes_costs = true;
  return traits;
}

std::map<std::string, ScheduleTraits>& Table() {
  static auto* const table = new std::map<std::string, ScheduleTraits>{
      {"1f1b", Straight()},
      {"bitpipe", Bidirectional(4)},
      {"cascaded", Cascaded(false, 10)},
      {"cascaded-v", Cascaded(true, 16, 4)},
      {"cascaded-zb", Cascaded(true, 20)},
      {"chimera", Bidirectional(2)},
      {"dualpipe-v", DualPipeV()},
      {"eager-1f1b", Straight()},
      {"gpipe", Straight()},
      {"interleaved", Interleaved()},
      {"single", Single()},
      {"v-auto", VShape(true, true, 20)},
      {"v-half", VShape(true, true, 7)},
      {"v-min", VShape(true, true, 7)},
      {"wave", VShape(false, true, 4)},
      {"zb-auto", ZeroBubble(true, 15)},
      {"zb-h1", ZeroBubble(false)},
      {"zb-h2", ZeroBubble(false)},
      {"zb-v", VShape(true, true, 4)},
      {"zeropp", ZeroPp()},
  };
  return *table;
}

}  // namespace

absl::StatusOr<ScheduleTraits> TraitsOf(const std::string& name) {
  const auto found = Table().find(name);
  if (found == Table().end()) {
    return absl::NotFoundError(absl::StrCat("schedule '", name, "' has no traits"));
  }
  return found->second;
}

void RegisterScheduleTraits(const std::string& name, const ScheduleTraits& traits) {
  const bool added = Table().emplace(name, traits).second;
  DPIPE_CHECK(added) << "schedule " << name << " has traits already";
}

absl::Status CheckRequest(const std::string& name, const ScheduleTraits& traits,
                          const ScheduleRequest& request) {
  const auto refuse = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("schedule ", name, ": ", what...));
  };
  const int p = request.num_devices, m = request.num_micro_batches;
  if (p < traits.min_devices) {
    return refuse(p, " devices; it takes at least ", traits.min_devices);
  }
  if (traits.max_devices > 0 && p > traits.max_devices) {
    return refuse(p, " devices; it takes at most ", traits.max_devices);
  }
  if (p % traits.devices_multiple_of != 0) {
    return refuse(p, " devices; it takes multiples of ", traits.devices_multiple_of);
  }
  if (m < 1 || m % traits.micro_batches_multiple_of != 0) {
    return refuse(m, " micro-batches; it takes multiples of ", traits.micro_batches_multiple_of);
  }
  if (traits.micro_batches_multiple_of_devices && m % p != 0) {
    return refuse(m, " micro-batches; it takes multiples of the ", p, " devices");
  }
  if (m < traits.min_micro_batches_per_device * p) {
    return refuse(m, " micro-batches; it takes at least ", traits.min_micro_batches_per_device,
                  " for each of the ", p, " devices");
  }
  if (!traits.takes_stages_per_device && request.stages_per_device != 0 &&
      request.stages_per_device != traits.stages_per_device) {
    return refuse(request.stages_per_device, " stages per device; it has ",
                  traits.stages_per_device);
  }
  if (request.stages_per_device != 0 && request.stages_per_device < traits.min_stages_per_device) {
    return refuse(request.stages_per_device, " stages per device; it takes at least ",
                  traits.min_stages_per_device);
  }
  return absl::OkStatus();
}

}  // namespace dpipe
