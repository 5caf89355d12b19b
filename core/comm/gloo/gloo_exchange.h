// Sums and gathers over a group of ranks, in rank order, made of messages between pairs of ranks.
//
// Gloo's own collectives add in the order of their rings. Here every sum is taken as if by one rank
// that adds the others' values in turn, so the bits are those of ranks in one process. Each rank
// sums one shard and sends it to the others. As in a ring, 2 (n-1)/n of the bytes go through each
// rank, in each direction.
#ifndef DPIPE_CORE_COMM_GLOO_GLOO_EXCHANGE_H_
#define DPIPE_CORE_COMM_GLOO_GLOO_EXCHANGE_H_

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "core/base/status.h"
#include "core/comm/communicator.h"
#include "core/comm/gloo/gloo_mesh.h"
#include "core/tensor/tensor.h"

namespace dpipe {

// Messages that a rank has sent and that have not been taken yet; keeps their bytes alive until
// then.
class GlooOutbox {
 public:
  struct Parcel {
    std::string what;
    std::vector<Tensor> tensors;
    std::string header;
    // Of the two above; destroyed before them.
    std::vector<std::unique_ptr<GlooTransfer>> transfers;
  };

  // `mesh` outlives the outbox.
  explicit GlooOutbox(GlooMesh* mesh);
  // Blocks until everything has been taken or the job has failed. Fails the job if the deadline
  // passes.
  ~GlooOutbox();
  GlooOutbox(const GlooOutbox&) = delete;
  GlooOutbox& operator=(const GlooOutbox&) = delete;

  void Add(std::unique_ptr<Parcel> parcel);

 private:
  void Loop();

  GlooMesh* const mesh_;
  absl::Mutex mutex_;
  std::deque<std::unique_ptr<Parcel>> parcels_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

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
