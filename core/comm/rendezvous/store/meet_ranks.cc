#include "core/comm/rendezvous/store/meet_ranks.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace dpipe {

absl::StatusOr<std::vector<std::string>> ExchangeTexts(StoreClient* store, const std::string& key,
                                                       int rank, int size, const std::string& text,
                                                       const std::string& why,
                                                       absl::Duration deadline) {
  DPIPE_RETURN_IF_ERROR(store->Set(absl::StrCat(key, "/", rank), text));
  std::vector<std::string> texts(size);
  for (int other = 0; other < size; ++other) {
    if (other == rank) {
      texts[other] = text;
      continue;
    }
    DPIPE_ASSIGN_OR_RETURN(texts[other],
                           store->Get(absl::StrCat(key, "/", other),
                                      absl::StrCat("rank ", other, " ", why), deadline));
  }
  return texts;
}

absl::Status MeetRanks(StoreClient* store, const std::string& key, int rank, int size,
                       const std::string& why, absl::Duration deadline) {
  return ExchangeTexts(store, key, rank, size, "", why, deadline).status();
}

}  // namespace dpipe
