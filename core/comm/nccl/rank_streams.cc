#include "core/comm/nccl/rank_streams.h"

#include "core/comm/nccl/nccl_call.h"

namespace dpipe {

absl::StatusOr<NcclIds> NewNcclIds(const NcclApi& api) {
  NcclIds ids;
  for (std::string* id : {&ids.up, &ids.down, &ids.collectives}) {
    ncclUniqueId unique;
    DPIPE_RETURN_IF_ERROR(NcclStatus(api, api.ncclGetUniqueId(&unique), "ncclGetUniqueId"));
    id->assign(reinterpret_cast<const char*>(&unique), sizeof(unique));
  }
  return ids;
}

absl::StatusOr<RankStreams> RankStreams::Create(const NcclApi* api,
                                                const std::shared_ptr<Device>& device,
                                                absl::Duration deadline) {
  RankStreams streams;
  DPIPE_ASSIGN_OR_RETURN(streams.up,
                         CommStream::Create(api, device, "messages to higher ranks", deadline));
  DPIPE_ASSIGN_OR_RETURN(streams.down,
                         CommStream::Create(api, device, "messages to lower ranks", deadline));
  DPIPE_ASSIGN_OR_RETURN(streams.collectives,
                         CommStream::Create(api, device, "collectives", deadline));
  return streams;
}

absl::Status RankStreams::Connect(const NcclIds& ids, Rank rank, int size) const {
  DPIPE_RETURN_IF_ERROR(up->Connect(ids.up, rank.value(), size));
  DPIPE_RETURN_IF_ERROR(down->Connect(ids.down, rank.value(), size));
  return collectives->Connect(ids.collectives, rank.value(), size);
}

}  // namespace dpipe
