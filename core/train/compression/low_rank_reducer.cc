#include "core/train/compression/low_rank_reducer.h"

#include <algorithm>
#include <utility>

#include "core/base/philox.h"
#include "core/train/compression/low_rank.h"

namespace dpipe {
namespace {

constexpr uint64_t kSeed = 0x9e3779b9;  // for drawing factors: the same on every rank

Tensor Matrix(const std::shared_ptr<Device>& device, int64_t rows, int64_t columns) {
  return Tensor::Zeros(device, {rows, columns}, DType::kF32);
}

// Replaces zero columns by random ones, the same on every rank. A zero column would stay zero
// forever, through P = M Q and the next Q = M^T P. In step 0 of a new factor, draws all columns.
void DrawZeroColumns(uint64_t part, int64_t step, Tensor* q) {
  const int64_t rank = q->dim(1);
  const auto numbers = q->span<float>();
  std::vector<bool> is_zero(rank, true);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] != 0) is_zero[i % rank] = false;
  }
  RandomStream random(kSeed, part, static_cast<uint32_t>(step), RandomPurpose::kInit);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (is_zero[i % rank]) numbers[i] = random.NextNormal();
  }
}

}  // namespace

// The factors P are in flight; Wait does the rest.
class LowRankReducer::Pending : public PendingCollective {
 public:
  Pending(LowRankReducer* reducer, absl::Span<const Rank> group, std::string what, Bucket* bucket,
          std::unique_ptr<PendingCollective> first)
      : reducer_(reducer),
        group_(group.begin(), group.end()),
        what_(std::move(what)),
        bucket_(bucket),
        first_(std::move(first)) {}

  absl::Status Wait() override {
    DPIPE_RETURN_IF_ERROR(first_->Wait());
    DPIPE_RETURN_IF_ERROR(reducer_->Finish(group_, what_, bucket_));
    end_ns_ = MonotonicNow();
    return absl::OkStatus();
  }
  Nanos end_ns() const override { return end_ns_; }

 private:
  LowRankReducer* const reducer_;
  const std::vector<Rank> group_;
  const std::string what_;
  Bucket* const bucket_;
  const std::unique_ptr<PendingCollective> first_;
  Nanos end_ns_ = 0;
};

void LowRankReducer::SetRank(int rank, uint64_t index, Factored* part) const {
  if (rank == part->rank) return;
  part->rank = rank;
  part->p = Matrix(part->gradient.device(), part->rows, rank);
  part->q = Matrix(part->gradient.device(), part->columns, rank);
  DrawZeroColumns(index, /*step=*/0, &part->q);
}

// Returns the matrices of the gradients. A convolution is a matrix of output channels by all other
// dimensions.
LowRankReducer::Bucket LowRankReducer::MakeBucket(const std::vector<Tensor>& gradients) const {
  Bucket bucket;
  for (const Tensor& gradient : gradients) {
    Factored part;
    part.gradient = gradient;
    part.rows = gradient.shape().rank() > 1 ? gradient.dim(0) : 1;
    part.columns = gradient.num_elements() / std::max<int64_t>(1, part.rows);
    if (CanShrink(part, options_.rank)) {
      SetRank(options_.rank, bucket.parts.size(), &part);
      part.error = Tensor::Zeros(gradient.device(), gradient.shape(), DType::kF32);
    }
    bucket.parts.push_back(std::move(part));
  }
  return bucket;
}

absl::Status LowRankReducer::ChooseRanks(absl::Span<const Rank> group, const std::string& what,
                                         Bucket* bucket) {
  std::vector<std::vector<float>> errors;  // [part][rank - 1], of this rank
  std::vector<Factored*> parts;
  int64_t count = 0;
  for (Factored& part : bucket->parts) {
    if (part.rank == 0) continue;
    double left = 0;
    for (float x : part.error.span<float>()) left += static_cast<double>(x) * x;
    std::vector<float>& by_rank = errors.emplace_back();
    for (double square :
         LeadingSquaredSingularValues(part.error.data<float>(), part.rows, part.columns,
                                      options_.max_rank, /*seed=*/kSeed)) {
      left = std::max(0.0, left - square);
      by_rank.push_back(static_cast<float>(left));
    }
    parts.push_back(&part);
    count += static_cast<int64_t>(by_rank.size());
  }
  if (parts.empty()) return absl::OkStatus();
  // Every rank chooses by the sum of all ranks' errors.
  std::vector<Tensor> sum = {Tensor::Empty(parts[0]->error.device(), {count}, DType::kF32)};
  float* next = sum[0].data<float>();
  for (const auto& by_rank : errors) next = std::copy(by_rank.begin(), by_rank.end(), next);
  DPIPE_RETURN_IF_ERROR(communicator_->AllReduceSum(group, absl::MakeSpan(sum), what + ", errors"));
  std::vector<std::vector<CompressionChoice>> choices;
  std::vector<int> reference;
  double budget = 0;
  const float* error = sum[0].data<float>();
  for (size_t i = 0; i < parts.size(); ++i) {
    std::vector<CompressionChoice>& of_part = choices.emplace_back();
    const int64_t edge = parts[i]->rows + parts[i]->columns;
    for (int rank = 1; rank <= static_cast<int>(errors[i].size()); ++rank, ++error) {
      if (CanShrink(*parts[i], rank)) of_part.push_back({rank * edge, *error});
    }
    reference.push_back(std::min<int>(options_.rank, static_cast<int>(of_part.size())) - 1);
    budget += of_part[reference.back()].error;
  }
  const std::vector<int> chosen = ChooseUnderBudget(choices, budget, reference);
  for (size_t i = 0; i < parts.size(); ++i) SetRank(chosen[i] + 1, i, parts[i]);
  return absl::OkStatus();
}

Communicator::StartedCollective LowRankReducer::Start(absl::Span<const Rank> group,
                                                      std::vector<Tensor> gradients,
                                                      const std::string& what) {
  auto [at, is_new] = buckets_.try_emplace(what);
  Bucket& bucket = at->second;
  if (is_new) bucket = MakeBucket(gradients);
  std::vector<Tensor> sums;
  for (size_t i = 0; i < gradients.size(); ++i) {
    Factored& part = bucket.parts[i];
    part.gradient = gradients[i];
    if (part.rank == 0) continue;
    float* error = part.error.data<float>();
    for (float x : gradients[i].span<float>()) *error++ += x;
  }
  if (options_.choose_every > 0 && bucket.steps > 0 && bucket.steps % options_.choose_every == 0) {
    DPIPE_RETURN_IF_ERROR(ChooseRanks(group, what, &bucket));
  }
  ++bucket.steps;
  for (Factored& part : bucket.parts) {
    if (part.rank == 0) {
      sums.push_back(part.gradient);
      continue;
    }
    Multiply(part.error.data<float>(), part.rows, part.columns, part.q.data<float>(), part.rank,
             part.p.data<float>());
    sums.push_back(part.p);
  }
  DPIPE_ASSIGN_OR_RETURN(auto first,
                         communicator_->StartAllReduceSum(group, std::move(sums), what));
  return std::unique_ptr<PendingCollective>(
      std::make_unique<Pending>(this, group, what, &bucket, std::move(first)));
}

// Sums the factors Q and sets the gradients. Each rank's error is the part that its own projection
// omits; the projections add up to the sum.
absl::Status LowRankReducer::Finish(absl::Span<const Rank> group, const std::string& what,
                                    Bucket* bucket) {
  std::vector<Tensor> sums;
  std::vector<float> projection;
  for (Factored& part : bucket->parts) {
    if (part.rank == 0) continue;
    Orthonormalise(part.p.data<float>(), part.rows, part.rank);
    float *error = part.error.data<float>(), *q = part.q.data<float>();
    MultiplyTransposed(error, part.rows, part.columns, part.p.data<float>(), part.rank, q);
    projection.resize(part.rows * part.columns);
    MultiplyOuter(part.p.data<float>(), part.rows, q, part.columns, part.rank, projection.data());
    for (float x : projection) *error++ -= x;
    sums.push_back(part.q);
  }
  DPIPE_RETURN_IF_ERROR(communicator_->AllReduceSum(group, absl::MakeSpan(sums), what));
  for (size_t i = 0; i < bucket->parts.size(); ++i) {
    Factored& part = bucket->parts[i];
    if (part.rank > 0) {
      MultiplyOuter(part.p.data<float>(), part.rows, part.q.data<float>(), part.columns, part.rank,
                    part.gradient.data<float>());
      DrawZeroColumns(i, bucket->steps, &part.q);
    }
    Tensor callers;
    std::swap(callers, part.gradient);
  }
  return absl::OkStatus();
}

}  // namespace dpipe
