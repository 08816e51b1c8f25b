model_path=./models/a-model
precision="w8a8kv8"
static_sparsity=0.75
python generate.py --model $model_path --precision $precision --static-sparsity ${static_sparsity} --static-sparse-attn-load-dir ./attn_patterns/a-model \
  --sparse-context-mode --ctx-sink-token 128 --ctx-local-token 8192 --sparse-decode-mode 0 \
  --dec-sink-token 128 --dec-local-token 256
