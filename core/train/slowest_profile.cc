#include "core/train/slowest_profile.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

// Returns the sum over all layers, each with the largest batch that it was timed with.
int64_t TotalNs(const ModelProfile& profile) {
  int64_t total = 0;
  for (const ComponentProfile& component : profile.components()) {
    for (const LayerProfile& layer : component.layers()) {
      if (layer.timings().empty()) continue;
      const LayerTiming& timing = *layer.timings().rbegin();
      total += timing.forward_ns() + timing.input_grad_ns() + timing.weight_grad_ns();
    }
  }
  return total;
}

absl::StatusOr<ModelProfile> Parse(const std::string& text, const std::string& whose) {
  ModelProfile profile;
  if (profile.ParseFromString(text)) return profile;
  return absl::InternalError(absl::StrCat("the profile of ", whose, " is not a ModelProfile"));
}

}  // namespace

absl::StatusOr<ModelProfile> SlowestProfile(ProcessGroup* processes, ModelProfile own) {
  StoreClient& store = processes->store();
  const std::string key = absl::StrCat("profile/", processes->NextNumber(), "/");
  if (!processes->is_leader()) {
    DPIPE_RETURN_IF_ERROR(
        store.SendNote(0, absl::StrCat(key, processes->process()), own.SerializeAsString()));
  }
  for (int p = 1; processes->is_leader() && p < processes->num_processes(); ++p) {
    DPIPE_ASSIGN_OR_RETURN(
        const std::string text,
        store.TakeNote(absl::StrCat(key, p), absl::StrCat("the profile of ", store.NameOf(p))));
    DPIPE_ASSIGN_OR_RETURN(ModelProfile other, Parse(text, store.NameOf(p)));
    if (TotalNs(other) > TotalNs(own)) own = std::move(other);
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string slowest,
                         processes->FromLeader("the slowest profile", own.SerializeAsString()));
  return Parse(slowest, store.NameOf(0));
}

}  // namespace dpipe
