// Sums the largest numbers of fused gradients: "cupcake" in gradient_compression.h.
#ifndef DPIPE_CORE_TRAIN_COMPRESSION_FUSED_SPARSE_REDUCER_H_
#define DPIPE_CORE_TRAIN_COMPRESSION_FUSED_SPARSE_REDUCER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/runtime/gradient_reducer.h"
#include "core/train/compression/gradient_compression.h"

namespace dpipe {

class FusedSparseReducer : public GradientReducer {
 public:
  FusedSparseReducer(Communicator* communicator, const CompressionOptions& options)
      : communicator_(communicator), options_(options) {}

  Communicator::StartedCollective Start(absl::Span<const Rank> group, std::vector<Tensor> gradients,
                                        const std::string& what) override;

 private:
  // Neighbouring gradients that are compressed together.
  struct Group {
    size_t begin = 0, end = 0;  // of the gradients
    Tensor error;               // numbers still to be sent, one gradient after another
    int64_t kept = 0;           // numbers that each rank sends
    Tensor own, all;            // values, then positions as int32 bits: this rank's, every rank's
    std::vector<int32_t> places;
  };
  class Pending;

  std::vector<Group> MakeGroups(const std::vector<Tensor>& gradients, size_t num_ranks) const;
  // Adds the gradients to the remaining error, and extracts the largest numbers from it.
  void Compress(const std::vector<Tensor>& gradients, Group* group) const;
  static void Decompress(const Group& group, size_t num_ranks, std::vector<Tensor>* gradients);

  Communicator* const communicator_;
  const CompressionOptions options_;
  std::map<std::string, std::vector<Group>> groups_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_COMPRESSION_FUSED_SPARSE_REDUCER_H_
