// Sums gradients as low-rank factors: "l-greco" in gradient_compression.h.
#ifndef DPIPE_CORE_TRAIN_COMPRESSION_LOW_RANK_REDUCER_H_
#define DPIPE_CORE_TRAIN_COMPRESSION_LOW_RANK_REDUCER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/runtime/gradient_reducer.h"
#include "core/train/compression/gradient_compression.h"

namespace dpipe {

class LowRankReducer : public GradientReducer {
 public:
  LowRankReducer(Communicator* communicator, const CompressionOptions& options)
      : communicator_(communicator), options_(options) {}

  Communicator::StartedCollective Start(absl::Span<const Rank> group, std::vector<Tensor> gradients,
                                        const std::string& what) override;

 private:
  // A gradient as a matrix [rows, columns], with the error of earlier steps.
  struct Factored {
    int64_t rows = 0, columns = 0;
    int rank = 0;  // 0: summed whole
    Tensor gradient, error, p, q;
  };
  struct Bucket {
    std::vector<Factored> parts;
    int64_t steps = 0;
  };
  class Pending;

  Bucket MakeBucket(const std::vector<Tensor>& gradients) const;
  // Sets a part's rank and, if it changes, new factors. `index` is the part's position in its
  // bucket.
  void SetRank(int rank, uint64_t index, Factored* part) const;
  bool CanShrink(const Factored& part, int rank) const {
    return rank * (part.rows + part.columns) < part.rows * part.columns;
  }
  // Chooses ranks from the data to compress in this step, including the error feedback.
  absl::Status ChooseRanks(absl::Span<const Rank> group, const std::string& what, Bucket* bucket);
  absl::Status Finish(absl::Span<const Rank> group, const std::string& what, Bucket* bucket);

  Communicator* const communicator_;
  const CompressionOptions options_;
  std::map<std::string, Bucket> buckets_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_COMPRESSION_LOW_RANK_REDUCER_H_
