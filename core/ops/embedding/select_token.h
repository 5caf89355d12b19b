// The state of one token per sample, such as CLIP's pooled output: that of the text's end.
#ifndef DPIPE_CORE_OPS_EMBEDDING_SELECT_TOKEN_H_
#define DPIPE_CORE_OPS_EMBEDDING_SELECT_TOKEN_H_

#include <cstdint>
#include <optional>

#include "core/base/status.h"
#include "core/tensor/tensor.h"

namespace dpipe::ops {

// ids int32 [B, T], x [B, T, C] in fp32 or bf16 -> [B, C]: x[b, t] of the first t with
// ids[b, t] == token, or t = 0 if there is none. Without a token: of the first t with the largest
// id.
absl::StatusOr<Tensor> SelectTokenForward(std::optional<int32_t> token, const Tensor& ids,
                                          const Tensor& x);

// Returns dx [B, T, C] from dy [B, C]; zero for the other tokens.
absl::StatusOr<Tensor> SelectTokenInputGrad(std::optional<int32_t> token, const Tensor& ids,
                                            const Tensor& dy);

}  // namespace dpipe::ops

#endif  // DPIPE_CORE_OPS_EMBEDDING_SELECT_TOKEN_H_
