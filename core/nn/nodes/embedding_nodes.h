// Embeddings of tokens, of their distances, of their positions and of timesteps as nodes.
#ifndef DPIPE_CORE_NN_NODES_EMBEDDING_NODES_H_
#define DPIPE_CORE_NN_NODES_EMBEDDING_NODES_H_

#include <optional>
#include <string>

#include "core/nn/program_builder.h"
#include "core/ops/embedding/embedding.h"
#include "core/ops/embedding/positions.h"

namespace dpipe::nn {

struct TokenEmbeddingSpec {
  std::string table_name;      // name of the parameter [vocabulary, width]
  std::string positions_name;  // name of the parameter [positions, width]; empty: none
  int64_t vocabulary = 0;
  int64_t positions = 0;
  int64_t width = 0;
  // Standard deviations of the normal distributions that initialise the parameters. CLIP's.
  float deviation = 0.02f, positions_deviation = 0.01f;
};

// ids int32 [T] -> [T, width]: table[id] + positions[t].
ValueId AddTokenEmbedding(ProgramBuilder* builder, ValueId ids, const TokenEmbeddingSpec& spec);

// label int32 [] -> [width]: a row of the parameter `<name>.weight` [classes, width], which is
// initialised standard normal, as torch.nn.Embedding. At run time, InvalidArgument for a label
// outside [0, classes).
ValueId AddLabelEmbedding(ProgramBuilder* builder, const std::string& name, ValueId label,
                          int64_t classes, int64_t width);

// T5's relative position bias for AddAttentionWithBias: kF32 [heads, queries + keys - 1] from the
// parameter `<name>.weight` [num_buckets, heads]. `ids` is any integer input; it only gives the
// batch.
ValueId AddRelativeBias(ProgramBuilder* builder, const std::string& name, ValueId ids,
                        int64_t heads, const ops::RelativeBiasParams& params);

// x [T, C], ids int32 [T] -> [C]: the row of the first `token` among the ids (row 0 if there is
// none), or without `token` of the largest id. Saves the ids.
ValueId AddSelectToken(ProgramBuilder* builder, ValueId x, ValueId ids,
                       std::optional<int32_t> token);

// timesteps int32 or fp32 [] -> sinusoids [dim]; or numbers [n] -> [n dim], one number's after
// another's. No parameters, no gradient.
ValueId AddTimeEmbedding(ProgramBuilder* builder, ValueId timesteps,
                         const ops::TimeEmbeddingParams& params);

// Queries or keys x [T, heads * head_size] -> the same shape, with every head rotated by its
// token's position. Saves nothing.
ValueId AddRotaryEmbedding(ProgramBuilder* builder, ValueId x, const ops::RotaryParams& params);

// x [rows * columns, C] -> x + sinusoids of the tokens' positions. Saves nothing.
ValueId AddPositionTable(ProgramBuilder* builder, ValueId x,
                         const ops::PositionTableParams& params);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_EMBEDDING_NODES_H_
