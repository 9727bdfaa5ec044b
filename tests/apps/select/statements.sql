-- Statements that are answered as DuckDB answers them on the tables and their join, `wide`. One a line; those with
-- ORDER BY at the end give rows in order.
SELECT count(*) FROM wide
SELECT count(*) AS n, sum(price) AS s, avg(price) AS a FROM wide
SELECT sum(price * weight) FROM wide
SELECT city, sum(price) FROM wide GROUP BY city
SELECT city, sum(price) FROM wide GROUP BY 1
SELECT city AS c, sum(price) FROM wide GROUP BY c
SELECT city, sum(price) FROM wide GROUP BY ALL
SELECT sum(price), city FROM wide GROUP BY city
SELECT upper(city) AS c, count(*) FROM wide GROUP BY upper(city)
SELECT upper(city) AS c, count(*) FROM wide GROUP BY c
SELECT length(city) + 1, count(*) FROM wide GROUP BY length(city)
SELECT count(*) FROM wide GROUP BY city, family
SELECT city, family, min(price), max(price) FROM wide GROUP BY city, family
SELECT year(day) AS y, month(day) AS m, sum(price) FROM wide GROUP BY ALL
SELECT date_trunc('month', day) AS m, sum(price) FROM wide GROUP BY 1 ORDER BY 1
SELECT price > 10 AS dear, count(*) FROM wide GROUP BY dear
SELECT price + weight AS total, count(*) FROM wide GROUP BY total
SELECT city, sum(price) FROM wide WHERE family = 'DAIRY' GROUP BY city
SELECT city, sum(price) FROM wide WHERE family = 'DAIRY' AND price > 3 OR city IS NULL GROUP BY city
SELECT city, sum(price) FROM wide WHERE NOT (family = 'DAIRY') GROUP BY city
SELECT family, sum(price) FROM wide WHERE city IN ('Quito', 'Loja') GROUP BY family
SELECT family, sum(price) FROM wide WHERE city NOT IN ('Quito', 'Loja') GROUP BY family
SELECT family, sum(price) FROM wide WHERE city LIKE '%u%' GROUP BY family
SELECT family, sum(price) FROM wide WHERE day BETWEEN DATE '2020-01-10' AND DATE '2020-02-20' GROUP BY family
SELECT family, sum(price) FROM wide WHERE day < DATE '2020-01-10' + INTERVAL '1' MONTH GROUP BY family
SELECT family, sum(price) FROM wide WHERE price < weight * 4 GROUP BY family
SELECT family FROM wide GROUP BY family
SELECT DISTINCT family FROM wide
SELECT DISTINCT family, city FROM wide WHERE price > 5
SELECT DISTINCT sum(price) > 100 AS big FROM wide GROUP BY city
SELECT DISTINCT ON (big) sum(price) > 100 AS big FROM wide GROUP BY city ORDER BY big
SELECT city, sum(price) AS s FROM wide GROUP BY city HAVING sum(price) > 50
SELECT city, sum(price) AS s FROM wide GROUP BY city HAVING s > 50
SELECT city, sum(price) AS s FROM wide GROUP BY city HAVING count(*) > 3 AND city IS NOT NULL
SELECT city FROM wide GROUP BY city HAVING max(price) = 19
SELECT sum(price) AS s FROM wide HAVING sum(price) > 1000000
SELECT city, sum(price) AS s FROM wide GROUP BY city ORDER BY s DESC, city
SELECT city, sum(price) FROM wide GROUP BY city ORDER BY 2 DESC, 1 LIMIT 2
SELECT city, sum(price) FROM wide GROUP BY city ORDER BY sum(price) DESC, city LIMIT 2 OFFSET 1
SELECT city, sum(price) FROM wide GROUP BY city ORDER BY city NULLS FIRST
SELECT city, sum(price) FROM wide GROUP BY city ORDER BY city DESC NULLS LAST
SELECT city, sum(price) FROM wide GROUP BY city ORDER BY length(city), 2
SELECT city, sum(price) FROM wide GROUP BY city ORDER BY count(*), city
SELECT city, sum(price) FROM wide GROUP BY city ORDER BY ALL
SELECT city, count(*) FILTER (WHERE family = 'DAIRY') AS d FROM wide GROUP BY city
SELECT city, sum(price) FILTER (WHERE family = 'DAIRY') / count(*) AS d FROM wide GROUP BY city
SELECT city, sum(CASE WHEN family = 'DAIRY' THEN price ELSE 0 END) AS d FROM wide GROUP BY city
SELECT city, count(DISTINCT family) FROM wide GROUP BY city
SELECT family, count(DISTINCT city), median(price) FROM wide GROUP BY family
SELECT family, quantile_cont(price, 0.25) FROM wide GROUP BY family
SELECT family, stddev(price), var_pop(price) FROM wide GROUP BY family
SELECT family, corr(price, qty) FROM wide GROUP BY family
SELECT family, string_agg(DISTINCT city, ',' ORDER BY city) FROM wide GROUP BY family
SELECT family, bool_or(price > 18), bool_and(price > 0) FROM wide GROUP BY family
SELECT coalesce(sum(price), 0) FROM wide WHERE family = 'nothing'
SELECT city, coalesce(sum(price), 0) FROM wide WHERE family = 'nothing' GROUP BY city
SELECT round(avg(price), 2) AS a FROM wide
SELECT sum(price) + sum(qty) * 2 - 1 AS a FROM wide
SELECT sum(price) / count(*) AS a, family FROM wide GROUP BY family
SELECT CASE WHEN sum(price) > 100 THEN 'big' ELSE 'small' END AS k, family FROM wide GROUP BY family
SELECT CASE family WHEN 'DAIRY' THEN sum(price) ELSE -1 END AS k, family FROM wide GROUP BY family
SELECT family || ': ' || count(*) AS k FROM wide GROUP BY family
SELECT coalesce(city, 'none') AS c, count(*) FROM wide GROUP BY city
SELECT city, family, sum(price) FROM wide GROUP BY ROLLUP (city, family)
SELECT city, family, grouping(city) AS g, grouping(city, family) AS h, sum(price) FROM wide GROUP BY ROLLUP (city, family)
SELECT city, family, sum(price) FROM wide GROUP BY CUBE (city, family)
SELECT city, family, sum(price) FROM wide GROUP BY GROUPING SETS ((city), (family), ())
SELECT city, family, count(*) FROM wide GROUP BY city, ROLLUP (family)
SELECT city, family, grouping_id(city, family) AS g, count(*) FROM wide GROUP BY CUBE (city, family) HAVING count(*) > 2
SELECT city, sum(price) AS s, rank() OVER (ORDER BY sum(price) DESC) AS r FROM wide GROUP BY city
SELECT city, sum(price) / sum(sum(price)) OVER () AS share FROM wide GROUP BY city
SELECT city, family, sum(price) AS s, sum(sum(price)) OVER (PARTITION BY city) AS t FROM wide GROUP BY city, family
SELECT day, sum(price) AS s, sum(sum(price)) OVER (ORDER BY day ROWS UNBOUNDED PRECEDING) AS r FROM wide GROUP BY day ORDER BY day
SELECT month(day) AS m, sum(price) AS s, lag(sum(price)) OVER (ORDER BY month(day)) AS l FROM wide GROUP BY month(day) ORDER BY 1
SELECT city, family, row_number() OVER (PARTITION BY city ORDER BY sum(price) DESC, family) AS r FROM wide GROUP BY city, family
SELECT city, family, sum(price) AS s FROM wide GROUP BY city, family QUALIFY row_number() OVER (PARTITION BY city ORDER BY s DESC, family) = 1
SELECT city, avg(count(*)) OVER () AS a FROM wide GROUP BY city
SELECT city, sum(price) AS s, first_value(city) OVER (ORDER BY sum(price) DESC, city) AS best FROM wide GROUP BY city
SELECT city, ntile(2) OVER (ORDER BY city) AS n FROM wide GROUP BY city
WITH q AS (SELECT city, sum(price) AS s FROM wide GROUP BY city) SELECT * FROM q WHERE s > 50
WITH q AS (SELECT city, sum(price) AS s FROM wide GROUP BY city) SELECT avg(s), max(s) FROM q
WITH q AS (SELECT city, sum(price) AS s FROM wide GROUP BY city), r AS (SELECT max(s) AS m FROM q) SELECT city FROM q, r WHERE s = m
WITH q(a, b) AS (SELECT family, count(*) FROM wide GROUP BY family) SELECT b, a FROM q ORDER BY b, a
SELECT max(s) FROM (SELECT sum(price) AS s FROM wide GROUP BY city) AS t
SELECT t.city, t.s, u.s FROM (SELECT city, sum(price) AS s FROM wide GROUP BY city) AS t JOIN (SELECT city, sum(qty) AS s FROM wide GROUP BY city) AS u ON t.city = u.city
SELECT city FROM (SELECT city, rank() OVER (ORDER BY sum(price) DESC) AS r FROM wide GROUP BY city) AS t WHERE r <= 2
SELECT city, sum(price) AS s FROM wide GROUP BY city UNION ALL SELECT 'all', sum(price) FROM wide
SELECT city FROM wide GROUP BY city UNION SELECT family FROM wide GROUP BY family
SELECT city FROM wide WHERE price > 15 GROUP BY city EXCEPT SELECT city FROM wide WHERE price < 3 GROUP BY city
SELECT city FROM wide WHERE price > 15 GROUP BY city INTERSECT SELECT city FROM wide WHERE price < 3 GROUP BY city
SELECT city, sum(price) / (SELECT sum(price) FROM wide) AS share FROM wide GROUP BY city
SELECT count(*) FROM wide WHERE price > (SELECT avg(price) FROM wide)
SELECT count(*) FROM wide WHERE price = (SELECT max(price) FROM wide WHERE family = 'nothing')
SELECT count(*) FROM wide WHERE family IN (SELECT family FROM wide GROUP BY family HAVING sum(price) > 100)
SELECT count(*) FROM wide WHERE city NOT IN (SELECT city FROM wide WHERE city IS NOT NULL GROUP BY city HAVING count(*) < 4)
SELECT count(*) FROM wide WHERE EXISTS (SELECT count(*) FROM wide HAVING count(*) > 5)
SELECT city FROM wide GROUP BY city HAVING sum(price) > (SELECT avg(s) FROM (SELECT sum(price) AS s FROM wide GROUP BY city))
SELECT wide.city, sum(wide.price) FROM wide GROUP BY wide.city
SELECT w.city, sum(w.price) FROM wide AS w GROUP BY w.city ORDER BY w.city
SELECT "city", SUM("price") AS "Sum of it" FROM "wide" GROUP BY "city"
SELECT city, count(*) FROM sales LEFT JOIN stores ON sales.store = stores.id JOIN items ON sales.item = items.item GROUP BY city
SELECT s.city, count(*) FROM sales f LEFT JOIN stores s ON f.store = s.id JOIN items i USING (item) GROUP BY s.city
SELECT s.city, count(*) FROM items i JOIN sales f ON i.item = f.item LEFT JOIN stores s ON s.id = f.store GROUP BY s.city
SELECT s.city, count(*) FROM stores s RIGHT JOIN sales f ON s.id = f.store, items i WHERE i.item = f.item GROUP BY s.city
SELECT s.city, count(*) FROM sales f JOIN stores s ON f.store = s.id JOIN items i USING (item) GROUP BY s.city
SELECT s.city, count(*) FROM sales f, stores s, items i WHERE f.store = s.id AND f.item = i.item GROUP BY s.city
SELECT city, sum(price) FROM sales, stores WHERE store = id GROUP BY city
SELECT family, sum(price) FROM items JOIN sales USING (item) GROUP BY family
SELECT family, sum(price) FROM items NATURAL JOIN sales GROUP BY family;;joins
SELECT count(*) FROM sales
SELECT sum(price) FROM sales WHERE store IS NULL
SELECT city, count(*) FROM stores GROUP BY city
SELECT count(DISTINCT family) FROM items
SELECT family, sum(price) FROM sales f JOIN items i ON f.item = i.item AND i.weight > 2 GROUP BY family
SELECT family, sum(price) FROM sales f JOIN items i ON f.item = i.item AND f.qty = i.weight GROUP BY family
SELECT city, sum(area) FROM (SELECT 1) AS t, stores GROUP BY city;;tables
SELECT 1 + 1 AS two
SELECT x FROM (VALUES (1), (2)) AS t(x)
SELECT * FROM (SELECT city, count(*) AS n FROM wide GROUP BY city) AS t ORDER BY n, city
SELECT y, sum(v) AS s FROM (SELECT year(day) AS y, price * qty AS v, city FROM wide WHERE family = 'DAIRY') AS t WHERE city IS NOT NULL GROUP BY y ORDER BY y
SELECT t.c, count(*) FROM (SELECT s.city AS c FROM sales f, stores s WHERE f.store = s.id) AS t GROUP BY t.c
SELECT a, sum(b) FROM (SELECT family, price FROM wide) AS t(a, b) GROUP BY a
SELECT sum(x * 2) FROM (SELECT price + 1 AS x FROM (SELECT price FROM sales WHERE qty > 1) AS u) AS t
WITH t AS (SELECT city AS c, price - 1 AS p FROM wide) SELECT c, sum(p) AS s FROM t GROUP BY c HAVING s > 10 ORDER BY c
WITH t AS (SELECT city AS c, price AS p FROM wide WHERE price > 3) SELECT (SELECT max(p) FROM t) - (SELECT min(p) FROM t) AS d
SELECT DISTINCT c FROM (SELECT upper(city) AS c FROM wide) AS t
SELECT k, sum(n) AS total FROM (SELECT family AS k, count(*) AS n FROM wide GROUP BY family, city) AS t GROUP BY k ORDER BY k
SELECT city, count(*), sum(price) FROM sales LEFT JOIN stores ON store = id AND city = 'Quito' GROUP BY city
SELECT city, count(*) FROM sales LEFT JOIN stores ON store = id AND area > 5 AND city IS NOT NULL JOIN items USING (item) GROUP BY city ORDER BY city
SELECT n, count(*) FROM (SELECT stores.id, count(price) AS n FROM stores RIGHT JOIN sales ON store = id GROUP BY stores.id) AS t GROUP BY n
SELECT sum(price) FROM sales, items WHERE (sales.item = items.item AND family = 'DAIRY' AND qty = 1) OR (sales.item = items.item AND family = 'EGGS' AND price > 3)
SELECT count(*) FROM sales WHERE item IN (SELECT item FROM items WHERE weight > 2)
SELECT count(*) FROM sales WHERE item NOT IN (SELECT item FROM items WHERE weight > 2)
SELECT family, count(*), sum(weight) FROM items WHERE EXISTS (SELECT * FROM sales WHERE sales.item = items.item AND price > 10) GROUP BY family
SELECT count(*) FROM items AS i WHERE EXISTS (SELECT 1 FROM sales AS s WHERE s.item = i.item AND s.qty > i.weight)
SELECT avg(weight) AS a FROM items WHERE family <> 'EGGS' AND EXISTS (SELECT 1 FROM sales WHERE sales.item = items.item) HAVING count(*) > 0
SELECT DISTINCT family FROM items WHERE EXISTS (SELECT 1 FROM sales WHERE sales.item = items.item AND qty = 4)
SELECT city, sum(price) AS s FROM wide GROUP BY city ORDER BY s + 1 DESC, city
SELECT city, sum(price) AS s FROM wide GROUP BY city ORDER BY coalesce(s, 0) * 2, city
SELECT city, sum(sum(price)) FILTER (WHERE city IS NOT NULL) OVER () AS t FROM wide GROUP BY city
WITH q AS (SELECT city, sum(price) AS s, count(*) AS n FROM wide GROUP BY city), r AS (SELECT q.n, q.city FROM q WHERE s > 50) SELECT * FROM r ORDER BY 1, 2
WITH q AS (SELECT city, sum(price) AS s, count(*) AS n FROM wide GROUP BY city), r AS (SELECT q.n, q.city FROM q) SELECT r.* FROM r
SELECT * FROM (SELECT t.n + 1 AS m FROM (SELECT city, count(*) AS n FROM wide GROUP BY city) AS t) AS u ORDER BY m
