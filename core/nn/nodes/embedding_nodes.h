// Embeddings of tokens and of timesteps as nodes.
#ifndef DPIPE_CORE_NN_NODES_EMBEDDING_NODES_H_
#define DPIPE_CORE_NN_NODES_EMBEDDING_NODES_H_

#include <string>

#include "core/nn/program_builder.h"
#include "core/ops/time_embedding.h"

namespace dpipe::nn {

struct TokenEmbeddingSpec {
  std::string table_name;      // of the parameter [vocabulary, width]
  std::string positions_name;  // of the parameter [positions, width]
  int64_t vocabulary = 0;
  int64_t positions = 0;
  int64_t width = 0;
};

// ids int32 [T] -> [T, width]: table[id] + positions[t]. Parameters start normal with a standard
// deviation of 0.02 (0.01 for positions), as in CLIP.
ValueId AddTokenEmbedding(ProgramBuilder* builder, ValueId ids, const TokenEmbeddingSpec& spec);

// timesteps int32 [] -> sinusoids [dim]. No parameters, no gradient.
ValueId AddTimeEmbedding(ProgramBuilder* builder, ValueId timesteps,
                         const ops::TimeEmbeddingParams& params);

}  // namespace dpipe::nn

#endif  // DPIPE_CORE_NN_NODES_EMBEDDING_NODES_H_
