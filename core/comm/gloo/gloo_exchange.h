// Sums and gathers over a group of ranks, in rank order, made of messages between pairs of ranks.
//
// Gloo's own collectives add in the order of their rings. Here every sum is taken as if by one rank
// that adds the others' values in turn, so the bits are those of ranks in one process. Each rank
// sums one shard and sends it to the others. As in a ring, 2 (n-1)/n of the bytes go through each
// rank, in each direction.
#ifndef DPIPE_CORE_COMM_GLOO_GLOO_EXCHANGE_H_
#define DPIPE_CORE_COMM_GLOO_GLOO_EXCHANGE_H_

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/comm/contract.h"
#include "core/comm/gloo/gloo_mesh.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// Used by one thread.
class GlooExchange {
 public:
  // `mesh` outlives this.
  explicit GlooExchange(GlooMesh* mesh) : mesh_(mesh) {}

  // Blocking versions of Communicator's methods of the same names.
  absl::Status AllReduceSum(const RankGroup& group, absl::Span<const Tensor> tensors,
                            const std::string& what);
  absl::Status AllGather(const RankGroup& group, absl::Span<const Tensor> shards,
                         absl::Span<const Tensor> full, const std::string& what);
  absl::Status ReduceScatterSum(const RankGroup& group, absl::Span<const Tensor> full,
                                absl::Span<const Tensor> shards, const std::string& what);
  // Sums over all ranks.
  absl::Status AllReduceSum(absl::Span<double> values, const std::string& what);
  // Blocks until all ranks have called it.
  absl::Status MeetAtEnd();

 private:
  absl::Status Exchange(const RankGroup& group, int phase, absl::Span<const absl::Span<char>> out,
                        absl::Span<const absl::Span<char>> in, const std::string& what);
  absl::Status SumOverAll(int phase, absl::Span<double> values, const std::string& what);
  absl::Status SumShards(const RankGroup& group, absl::Span<const Tensor> full,
                         const std::string& what);
  absl::Status ShareSums(const RankGroup& group, absl::Span<const Tensor> full,
                         const std::string& what);

  GlooMesh* const mesh_;
  std::vector<float> packed_;    // one shard after another, each with all tensors in turn
  std::vector<float> received_;  // the group's contributions to this rank's shard, in its order
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_GLOO_GLOO_EXCHANGE_H_
