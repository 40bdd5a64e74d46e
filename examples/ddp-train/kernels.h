/* Kernels of ddp-train, launched from C. Matrices are row-major floats on the device.
 *
 * `work` is the work in percent: 100 does everything once, 120 costs 1.2 times as much and gives
 * the same result. `stream` is a cudaStream_t.
 */
#ifndef DDP_KERNELS_H
#define DDP_KERNELS_H

#ifdef __cplusplus
extern "C" {
#endif
struct CUstream_st;

/** y [rows x n_out] = x [rows x n_in] . w [n_in x n_out] + b [n_out], max(0, .) when relu. */
void ddp_forward(const float *x, const float *w, const float *b, float *y, int rows, int n_in,
                 int n_out, int relu, int work, struct CUstream_st *stream);
/** dy [rows x n_out] = softmax(y) - onehot(label), loss [rows] = -log softmax(y)[label]. */
void ddp_loss(const float *y, const int *label, float *dy, float *loss, int rows, int n_out,
              int work, struct CUstream_st *stream);
enum { DDP_SLICE_ROWS = 8 };
/** dw [n_in x n_out] = x^T . dy / rows, db [n_out] = column sums of dy / rows; db lies behind dw.
 *  One launch for each DDP_SLICE_ROWS rows. */
void ddp_backward_weights(const float *x, const float *dy, float *dw, int rows, int n_in, int n_out,
                          int work, struct CUstream_st *stream);
/** dx [rows x n_in] = dy . w^T, 0 where x <= 0 (the relu before). */
void ddp_backward_input(const float *dy, const float *w, const float *x, float *dx, int rows,
                        int n_in, int n_out, int work, struct CUstream_st *stream);
/** w [n] -= rate * g [n]. */
void ddp_update(float *w, const float *g, float rate, int n, int work, struct CUstream_st *stream);
/** A kernel that does next to nothing. */
void ddp_nothing(float *x, struct CUstream_st *stream);
#ifdef __cplusplus
}
#endif

#endif
