#include "core/sim/frozen_inbox.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace dpipe {

void FrozenInbox::Sort() {
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.component, a.layer, a.step_offset, a.samples.begin, a.arrival) <
           std::tie(b.component, b.layer, b.step_offset, b.samples.begin, b.arrival);
  });
}

void FrozenInbox::Await(int component, int layer, int step_offset, SampleRange samples,
                        std::vector<PlanWait>* waits) {
  using Key = std::tuple<int, int, int, int>;
  for (int offset = step_offset; offset <= 1; ++offset) {
    // Ranges do not overlap, so their ends increase with their beginnings.
    auto entry = std::lower_bound(
        entries_.begin(), entries_.end(), Key(component, layer, offset, samples.begin + 1),
        [](const Entry& e, const Key& key) {
          return Key(e.component, e.layer, e.step_offset, e.samples.end) < key;
        });
    for (; entry != entries_.end() && entry->component == component && entry->layer == layer &&
           entry->step_offset == offset && entry->samples.begin < samples.end;
         ++entry) {
      const bool previous_step = offset > step_offset;
      bool& awaited = previous_step ? entry->awaited_next_step : entry->awaited;
      if (!std::exchange(awaited, true)) waits->push_back({entry->arrival, previous_step});
    }
  }
}

}  // namespace dpipe
