// ZeroPP (Tang et al., "ZeroPP: unleashing exceptional parallelism efficiency through
// tensor-parallelism-free methodology", arXiv 2402.03791): a pipeline with sharded stages, whose
// parameters have to be gathered before use.
//
// Micro-batches form units. A device takes a whole unit through its first stage, then through its
// second one, and back in the same way. So the parameters of a stage are gathered once per unit
// forwards and once backwards. Apart from weight gradients, which need no parameters, the forward
// passes of one (stage, unit) are consecutive on the device, and so are the input gradients. The
// gathers themselves are added by the lowering.
//
// The chain is interleaved: stage k of v p on device k mod p. Weight gradients take the slots in
// which a device would wait. At F = I = W and v >= 2 they fill all waits but those of the first
// unit: for m >= p the makespan is v m (F+I+W) + (p-1)(F+I) (tested for p <= 8, v <= 3).
//
// A unit has p micro-batches (or all of them, or slightly different sizes, as m is divided evenly).
// It has 2p if costs are given and that is faster, and fewer if the peak limit requires it. A
// device keeps at most 2 v u pairs: two units of u micro-batches.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/schedule/builders/schedule_choice.h"
#include "core/schedule/builders/weight_filling.h"

namespace dpipe {
namespace {

constexpr char kName[] = "zeropp";
constexpr int kDefaultStagesPerDevice = 2;

// Divides m into max(1, m / unit) parts whose sizes differ by at most 1, the larger ones first.
std::vector<int> UnitsOf(int num_micro_batches, int unit) {
  const int count = std::max(1, num_micro_batches / unit);
  std::vector<int> sizes(count, num_micro_batches / count);
  for (int i = 0; i < num_micro_batches % count; ++i) ++sizes[i];
  return sizes;
}

std::vector<Slot> OrderOf(int device, int num_devices, int stages_per_device,
                          const std::vector<int>& units) {
  std::vector<Slot> slots;
  int first = 0;
  for (int size : units) {
    for (Pass pass : {Pass::kForward, Pass::kInputGrad}) {
      for (int i = 0; i < stages_per_device; ++i) {
        const int local = pass == Pass::kForward ? i : stages_per_device - 1 - i;
        for (int m = first; m < first + size; ++m) {
          slots.push_back({pass, m, local * num_devices + device});
        }
      }
    }
    first += size;
  }
  return slots;
}

absl::StatusOr<Schedule> Make(const ScheduleRequest& request, int v, int unit) {
  const int p = request.num_devices;
  ScheduleChain chain;
  chain.num_micro_batches = request.num_micro_batches;
  for (int k = 0; k < v * p; ++k) chain.devices.push_back(k % p);
  const std::vector<int> units = UnitsOf(request.num_micro_batches, unit);
  std::vector<std::vector<Slot>> order;
  for (int d = 0; d < p; ++d) order.push_back(OrderOf(d, p, v, units));
  WeightFillingOptions options;
  options.costs = request.costs;
  options.device_limit = 2 * v * units[0];
  if (request.peak_limit > 0) {
    options.device_limit = std::min(options.device_limit, request.peak_limit);
  }
  return FillWeightGradients(kName, {chain}, order, options);
}

absl::StatusOr<Schedule> ZeroPp(const ScheduleRequest& request) {
  const int p = request.num_devices;
  const int v =
      request.stages_per_device == 0 ? kDefaultStagesPerDevice : request.stages_per_device;
  if (v < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule zeropp: ", v, " stages per device; it takes at least 1"));
  }
  if (request.peak_limit > 0 && request.peak_limit < v) {
    return absl::InvalidArgumentError(absl::StrCat("schedule zeropp: a micro-batch makes ", v,
                                                   " pairs on a device, more than the limit of ",
                                                   request.peak_limit));
  }
  std::vector<int> units = {p};
  if (!request.costs.empty()) units.push_back(2 * p);
  if (request.peak_limit > 0) {
    // A unit can be larger than requested, but by less than a factor of two.
    const int room = request.peak_limit / v;
    for (int unit : {room, (room + 1) / 2, 1}) units.push_back(std::max(unit, 1));
  }
  ScheduleChoice choice(request);
  for (int unit : units) choice.Offer(Make(request, v, unit));
  return choice.Take();
}

REGISTER_SCHEDULE_GENERATOR("zeropp", ZeroPp);

}  // namespace
}  // namespace dpipe
