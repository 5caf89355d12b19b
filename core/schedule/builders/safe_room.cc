#include "core/schedule/builders/safe_room.h"

#include <algorithm>

#include "core/base/check.h"

namespace dpipe {

std::deque<SafeRoom::InFlight>::iterator SafeRoom::Find(int chain, int micro_batch) {
  const auto found = std::find_if(in_flight_.begin(), in_flight_.end(), [&](const InFlight& entry) {
    return entry.chain == chain && entry.micro_batch == micro_batch;
  });
  DPIPE_CHECK(found != in_flight_.end())
      << "micro-batch " << micro_batch << " of chain " << chain << " is not in flight";
  return found;
}

void SafeRoom::Enter(int chain, int micro_batch, int num_pairs) {
  if (limit_ > 0) in_flight_.push_back({chain, micro_batch, 0, num_pairs});
}

bool SafeRoom::MayAdd(int chain, int micro_batch) const {
  if (limit_ == 0) return true;
  int kept = kept_ + 1;  // pairs kept by this entry's micro-batch and those after it
  for (const InFlight& entry : in_flight_) {
    if (entry.chain == chain && entry.micro_batch == micro_batch) break;
    if (kept + entry.to_come > limit_) return false;
    kept -= entry.kept;
  }
  return kept <= limit_;
}

void SafeRoom::Add(int chain, int micro_batch) {
  ++kept_;
  if (limit_ == 0) return;
  const auto entry = Find(chain, micro_batch);
  ++entry->kept;
  --entry->to_come;
}

void SafeRoom::GiveBack(int chain, int micro_batch) {
  --kept_;
  if (limit_ == 0) return;
  const auto entry = Find(chain, micro_batch);
  --entry->kept;
  if (entry->kept == 0 && entry->to_come == 0) in_flight_.erase(entry);
}

}  // namespace dpipe
