// Embeddings of tokens and of timesteps as nodes.
#ifndef DPIPE_CORE_NN_NODES_EMBEDDING_NODES_H_
#define DPIPE_CORE_NN_NODES_EMBEDDING_NODES_H_

#include <string>

#include "core/nn/program_builder.h"
#include "core/ops/embedding/time_embedding.h"

namespace dpipe::nn {

struct TokenEmbeddingSpec {
  std::string table_name;      // name of the parameter [vocabulary, width]
  std::string positions_name;  // name of the parameter [positions, width]
  int64_t vocabulary = 0;
  int64_t positions = 0;
  int64_t width = 0;
};

// ids int32 [T] -> [T, width]: table[id] + positions[t]. Parameters are initialised from a normal
// distribution with a standard deviation of 0.02 (0.01 for positions), as in CLIP.
ValueId AddTokenEmbedding(ProgramBuilder* builder, ValueId ids, const TokenEmbeddingSpec& spec);

// label int32 [] -> [width]: a row of the parameter `<name>.weight` [classes, width], which is
// initialised standard normal, as torch.nn.Embedding. At run time, InvalidArgument for a label
// outside [0, classes).
ValueId AddLabelEmbedding(ProgramBuilder* builder, const std::string& name, ValueId label,
                          int64_t classes, int64_t width);

// timesteps int32 [] -> sinusoids [dim]. No parameters, no gradient.
ValueId AddTimeEmbedding(ProgramBuilder* builder, ValueId timesteps,
                         const ops::TimeEmbeddingParams& params);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_EMBEDDING_NODES_H_
