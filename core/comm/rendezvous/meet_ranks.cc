#include "core/comm/rendezvous/meet_ranks.h"

#include "absl/strings/str_cat.h"

namespace dpipe {

absl::Status MeetRanks(StoreClient* store, const std::string& key, int rank, int size,
                       const std::string& why, absl::Duration deadline) {
  DPIPE_RETURN_IF_ERROR(store->Set(absl::StrCat(key, "/", rank), ""));
  for (int other = 0; other < size; ++other) {
    if (other == rank) continue;
    DPIPE_RETURN_IF_ERROR(
        store->Get(absl::StrCat(key, "/", other), absl::StrCat("rank ", other, " ", why), deadline)
            .status());
  }
  return absl::OkStatus();
}

}  // namespace dpipe
