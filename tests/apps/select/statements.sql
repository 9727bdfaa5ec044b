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
-- Joins of the tables in any order, under aliases, in parentheses, with USING, commas and CROSS JOIN
SELECT i.family, s.city, sum(f.price * f.qty) AS turnover FROM items AS i JOIN sales AS f ON f.item = i.item JOIN stores AS s ON s.id = f.store GROUP BY i.family, s.city
SELECT family, sum(qty) FROM sales INNER JOIN items USING (item) WHERE weight <= 3 GROUP BY family
SELECT count(*) FROM items, sales WHERE items.item = sales.item AND family LIKE 'D%'
SELECT count(*) FROM sales CROSS JOIN items WHERE sales.item = items.item
SELECT city, count(*) FROM (sales LEFT JOIN stores ON sales.store = stores.id) JOIN items ON items.item = sales.item GROUP BY city
SELECT city, count(*) FROM (sales JOIN items USING (item)) LEFT OUTER JOIN stores ON store = id GROUP BY city
SELECT count(*), count(city) FROM stores RIGHT OUTER JOIN sales ON store = id
SELECT city, min(day), max(day) FROM sales JOIN stores ON id = store GROUP BY city
SELECT family, count(*) FROM sales f JOIN items i ON (f.item = i.item) GROUP BY i.family
SELECT family, count(*) FROM sales f JOIN items i ON f.item = i.item WHERE f.item = 1 GROUP BY i.family
SELECT f.store, count(*) FROM sales f GROUP BY f.store ORDER BY f.store NULLS FIRST
SELECT item, sum(price) FROM sales GROUP BY item ORDER BY item
SELECT items.item, sum(price) FROM sales JOIN items ON sales.item = items.item GROUP BY items.item
SELECT item, sum(weight) FROM sales JOIN items USING (item) GROUP BY item
SELECT max(area), min(area), avg(area) FROM stores
SELECT count(DISTINCT store), count(DISTINCT item) FROM sales
SELECT S.CITY, SUM(F.PRICE) FROM SALES F LEFT JOIN STORES S ON F.STORE = S.ID GROUP BY S.CITY
SELECT sum(price) FROM sales JOIN stores ON store = id AND area BETWEEN 5 AND 7
SELECT sum(price) FROM sales, stores WHERE store = id AND (city = 'Quito' OR area > 8)
SELECT area, sum(price) FROM stores, sales WHERE id = store AND id IN (1, 3) GROUP BY area
SELECT count(*) FROM sales LEFT JOIN stores ON store = id WHERE id IS NULL
SELECT count(*) FROM sales LEFT JOIN stores ON store = id WHERE stores.city IS NOT NULL
SELECT family, city, count(*) FROM sales NATURAL JOIN items, stores WHERE store = id GROUP BY ALL;;joins
-- WHERE of all kinds
SELECT count(*) FROM wide WHERE TRUE
SELECT count(*) FROM wide WHERE FALSE
SELECT count(*) FROM wide WHERE NULL
SELECT count(*) FROM wide WHERE 1 = 1 AND price > 0
SELECT count(*) FROM wide WHERE price IN (1, 2, 3, 5, 8, 13)
SELECT count(*) FROM wide WHERE price NOT IN (1, 2, NULL)
SELECT count(*) FROM wide WHERE city IN ('Quito', NULL)
SELECT count(*) FROM wide WHERE (city, family) IN (('Quito', 'DAIRY'), ('Loja', 'BREAD'))
SELECT count(*) FROM wide WHERE city ILIKE 'q%'
SELECT count(*) FROM wide WHERE city NOT ILIKE '%O%'
SELECT count(*) FROM wide WHERE family LIKE '_A%Y'
SELECT count(*) FROM wide WHERE family NOT LIKE '%A%'
SELECT count(*) FROM wide WHERE family LIKE '%!%%' ESCAPE '!'
SELECT count(*) FROM wide WHERE starts_with(family, 'D') OR ends_with(family, 'S')
SELECT count(*) FROM wide WHERE contains(family, 'GG')
SELECT count(*) FROM wide WHERE regexp_matches(family, '^[DE]')
SELECT count(*) FROM wide WHERE price BETWEEN 5 AND 9
SELECT count(*) FROM wide WHERE price NOT BETWEEN 5 AND 9
SELECT count(*) FROM wide WHERE price BETWEEN weight AND weight * 4
SELECT count(*) FROM wide WHERE city IS DISTINCT FROM 'Quito'
SELECT count(*) FROM wide WHERE city IS NOT DISTINCT FROM NULL
SELECT count(*) FROM wide WHERE price IS DISTINCT FROM qty
SELECT count(*) FROM wide WHERE (price > 5) IS TRUE
SELECT count(*) FROM wide WHERE (price > 5) IS NOT TRUE
SELECT count(*) FROM wide WHERE (price > 5) IS NULL
SELECT count(*) FROM wide WHERE CASE WHEN family = 'DAIRY' THEN price > 5 WHEN family = 'EGGS' THEN price < 5 ELSE FALSE END
SELECT count(*) FROM wide WHERE CASE family WHEN 'DAIRY' THEN 1 ELSE 2 END = 2
SELECT count(*) FROM wide WHERE day = '2020-01-15'
SELECT count(*) FROM wide WHERE day > '2020-02-10' AND day <= '2020-03-01'
SELECT count(*) FROM wide WHERE day = DATE '2020-01-15' OR day = CAST('2020-02-15' AS DATE) OR day = '2020-03-01'::DATE
SELECT count(*) FROM wide WHERE day >= DATE '2020-03-01' - INTERVAL 20 DAY
SELECT count(*) FROM wide WHERE day >= DATE '2020-03-01' - INTERVAL '20 days'
SELECT count(*) FROM wide WHERE day + INTERVAL 1 MONTH > DATE '2020-03-15'
SELECT count(*) FROM wide WHERE EXTRACT(month FROM day) = 2
SELECT count(*) FROM wide WHERE EXTRACT(YEAR FROM day) = 2020 AND EXTRACT(DAY FROM day) < 10
SELECT count(*) FROM wide WHERE date_part('month', day) IN (1, 3)
SELECT count(*) FROM wide WHERE date_trunc('month', day) = DATE '2020-02-01'
SELECT count(*) FROM wide WHERE dayofweek(day) IN (0, 6)
SELECT count(*) FROM wide WHERE date_diff('day', DATE '2020-01-01', day) > 30
SELECT count(*) FROM wide WHERE day BETWEEN DATE '2020-01-01' AND DATE '2020-01-01' + INTERVAL 1 MONTH
SELECT count(*) FROM wide WHERE price % 2 = 0
SELECT count(*) FROM wide WHERE mod(price, 3) = 1
SELECT count(*) FROM wide WHERE abs(price - 10) <= 2
SELECT count(*) FROM wide WHERE price * qty - weight > 20
SELECT count(*) FROM wide WHERE price / 2 > 4.5
SELECT count(*) FROM wide WHERE price // 2 = 4
SELECT count(*) FROM wide WHERE -price < -10
SELECT count(*) FROM wide WHERE coalesce(city, 'none') = 'none'
SELECT count(*) FROM wide WHERE nullif(city, 'Quito') IS NULL
SELECT count(*) FROM wide WHERE ifnull(price, 0) = 0
SELECT count(*) FROM wide WHERE greatest(price, 10) = 10
SELECT count(*) FROM wide WHERE least(price, qty) = qty
SELECT count(*) FROM wide WHERE length(city) > 4
SELECT count(*) FROM wide WHERE lower(family) = 'dairy' AND upper(city) = 'QUITO'
SELECT count(*) FROM wide WHERE substring(family, 1, 2) = 'DA'
SELECT count(*) FROM wide WHERE substr(family, 2) = 'GGS'
SELECT count(*) FROM wide WHERE left(family, 1) = 'B' OR right(family, 1) = 'S'
SELECT count(*) FROM wide WHERE trim('  ' || family || ' ') = 'EGGS'
SELECT count(*) FROM wide WHERE replace(family, 'G', 'g') = 'EggS'
SELECT count(*) FROM wide WHERE concat(family, '-', city) = 'DAIRY-Quito'
SELECT count(*) FROM wide WHERE family || city = 'DAIRYQuito'
SELECT count(*) FROM wide WHERE CAST(price AS VARCHAR) LIKE '1%'
SELECT count(*) FROM wide WHERE CAST(price AS DOUBLE) / qty > 3
SELECT count(*) FROM wide WHERE price::INTEGER = 7
SELECT count(*) FROM wide WHERE round(price / 3.0) = 2
SELECT count(*) FROM wide WHERE floor(price / 4.0) = 2 OR ceil(price / 4.0) = 1
SELECT count(*) FROM wide WHERE sqrt(price) > 3
SELECT count(*) FROM wide WHERE price != 5 AND price <> 6
SELECT count(*) FROM wide WHERE NOT price = 5
SELECT count(*) FROM wide WHERE price > 5 AND (family = 'DAIRY' OR city = 'Loja') AND NOT (qty = 1 AND weight = 3)
SELECT count(*) FROM wide WHERE store = 1 AND item = 2 OR store = 2 AND item = 1
SELECT count(*) FROM wide WHERE 5 < price
SELECT count(*) FROM wide WHERE price > 3 + 2 * 2
SELECT count(*) FROM wide WHERE try_cast(city AS INTEGER) IS NULL
SELECT count(*) FROM wide WHERE if(price > 5, qty, weight) = 2
-- GROUP BY of all kinds
SELECT family AS "Family", city AS "City", count(*) AS "How many" FROM wide GROUP BY "Family", "City"
SELECT city, family, sum(price) FROM wide GROUP BY 2, 1
SELECT city, family FROM wide GROUP BY ALL ORDER BY ALL
SELECT 2 * weight AS w, sum(price) FROM wide GROUP BY 2 * weight
SELECT weight * 2 + 1 AS w, sum(price) FROM wide GROUP BY weight
SELECT CASE WHEN price < 7 THEN 'low' WHEN price < 14 THEN 'mid' ELSE 'high' END AS band, count(*) FROM wide GROUP BY band ORDER BY band
SELECT CASE WHEN price IS NULL THEN 'none' WHEN price < 10 THEN 'low' ELSE 'high' END AS band, sum(qty) FROM wide GROUP BY 1 ORDER BY 1
SELECT EXTRACT(year FROM day) AS y, EXTRACT(month FROM day) AS m, sum(price) FROM wide GROUP BY EXTRACT(year FROM day), EXTRACT(month FROM day) ORDER BY y, m
SELECT date_trunc('week', day) AS w, count(*) FROM wide GROUP BY w ORDER BY w
SELECT date_trunc('quarter', day) AS q, sum(price) FROM wide GROUP BY date_trunc('quarter', day)
SELECT strftime(day, '%Y-%m') AS m, count(*) FROM wide GROUP BY m ORDER BY m
SELECT quarter(day), week(day), count(*) FROM wide GROUP BY 1, 2
SELECT dayname(day) AS d, count(*) FROM wide GROUP BY d ORDER BY d
SELECT price // 5 * 5 AS bin, count(*) FROM wide GROUP BY bin ORDER BY bin
SELECT floor(price / 5) AS bin, count(*) FROM wide GROUP BY bin ORDER BY bin
SELECT coalesce(city, 'none') AS c, sum(price) FROM wide GROUP BY coalesce(city, 'none')
SELECT coalesce(city, 'none') AS city, sum(price) FROM wide GROUP BY ALL ORDER BY ALL
SELECT city IS NULL AS lacks, count(*) FROM wide GROUP BY city IS NULL
SELECT left(family, 1) AS initial, count(*) FROM wide GROUP BY initial
SELECT city || '/' || family AS k, count(*) FROM wide GROUP BY k
SELECT store, item, day, count(*) FROM wide GROUP BY store, item, day HAVING count(*) > 1
SELECT 'all' AS k, count(*) FROM wide
SELECT 'all' AS k, city, count(*) FROM wide GROUP BY city
SELECT city, city AS again, count(*) FROM wide GROUP BY city
SELECT (city), (count(*)) FROM wide GROUP BY (city)
SELECT year(day) * 100 + month(day) AS ym, sum(price) FROM wide GROUP BY year(day), month(day) ORDER BY ym
-- Grouping sets
SELECT family, sum(price) FROM wide GROUP BY ROLLUP (1)
SELECT city, family, month(day) AS m, count(*) FROM wide GROUP BY ROLLUP (city, family, m)
SELECT city, family, count(*) FROM wide GROUP BY ROLLUP ((city, family))
SELECT city, family, count(*) FROM wide GROUP BY CUBE (city), family
SELECT city, family, count(*) FROM wide GROUP BY GROUPING SETS ((city, family), (city))
SELECT city, family, count(*) FROM wide GROUP BY GROUPING SETS (city, family)
SELECT city, family, count(*) FROM wide GROUP BY GROUPING SETS (ROLLUP (city), CUBE (family))
SELECT CASE WHEN grouping(city) = 1 THEN 'total' ELSE coalesce(city, 'none') END AS c, sum(price) FROM wide GROUP BY ROLLUP (city)
SELECT city, sum(price) FROM wide GROUP BY ROLLUP (city) HAVING grouping(city) = 1 OR sum(price) > 50
SELECT city, family, sum(price) AS s FROM wide GROUP BY ROLLUP (city, family) ORDER BY grouping(city), city, grouping(family), family
SELECT city, sum(price) AS s, sum(price) / sum(sum(price)) OVER (PARTITION BY grouping(city)) AS share FROM wide GROUP BY ROLLUP (city)
SELECT year(day) AS y, month(day) AS m, sum(price) FROM wide GROUP BY ROLLUP (year(day), month(day)) ORDER BY y, m
SELECT city, count(*) FROM wide WHERE price > 100 GROUP BY ROLLUP (city)
SELECT city, family, count(DISTINCT item), avg(price) FROM wide GROUP BY CUBE (city, family) ORDER BY ALL
SELECT s.city, i.family, sum(f.price) FROM sales f JOIN stores s ON f.store = s.id JOIN items i ON i.item = f.item GROUP BY GROUPING SETS ((s.city), (i.family))
-- HAVING, ORDER BY, LIMIT, DISTINCT
SELECT family, count(*) AS n FROM wide GROUP BY family HAVING n BETWEEN 5 AND 100 ORDER BY n DESC, family
SELECT family FROM wide GROUP BY family HAVING count(DISTINCT city) >= 2
SELECT family FROM wide GROUP BY family HAVING avg(price) > 5 OR max(qty) < 2
SELECT family, sum(price) FROM wide GROUP BY family HAVING family IN ('DAIRY', 'EGGS')
SELECT family, sum(price) AS s FROM wide GROUP BY family HAVING NOT s IS NULL
SELECT count(*) FROM wide HAVING count(*) > 1
SELECT city FROM wide GROUP BY city HAVING city LIKE '%o%'
SELECT family, sum(price) AS s FROM wide GROUP BY family ORDER BY -s, family
SELECT family, sum(price) AS s FROM wide GROUP BY family ORDER BY family DESC
SELECT city, sum(price) AS s FROM wide GROUP BY city ORDER BY city ASC NULLS FIRST LIMIT 1
SELECT city, sum(price) AS s FROM wide GROUP BY city ORDER BY s DESC NULLS LAST, city LIMIT 3
SELECT city, family, sum(price) AS s FROM wide GROUP BY city, family ORDER BY city NULLS FIRST, s DESC, family
SELECT family, sum(price) AS s FROM wide GROUP BY family ORDER BY CASE family WHEN 'EGGS' THEN 0 ELSE 1 END, family
SELECT family FROM wide GROUP BY family ORDER BY sum(price) DESC, family LIMIT 1
SELECT upper(family) AS f FROM wide GROUP BY family ORDER BY lower(family) DESC
SELECT family, count(*) FROM wide GROUP BY family ORDER BY family LIMIT 0
SELECT family, count(*) FROM wide GROUP BY family ORDER BY family LIMIT 10 OFFSET 10
SELECT family, count(*) FROM wide GROUP BY family ORDER BY family OFFSET 1
SELECT family, count(*) FROM wide GROUP BY family ORDER BY family LIMIT 1 + 1
SELECT family, count(*) FROM wide GROUP BY family ORDER BY family FETCH FIRST 2 ROWS ONLY
SELECT DISTINCT city, family FROM wide ORDER BY city, family LIMIT 4
SELECT DISTINCT month(day) AS m FROM wide WHERE price > 10 ORDER BY m
SELECT DISTINCT upper(city) FROM wide
SELECT DISTINCT count(*) FROM wide GROUP BY city
SELECT DISTINCT price, qty FROM sales WHERE price < 4 ORDER BY price, qty
SELECT DISTINCT weight FROM items ORDER BY 1 DESC
SELECT count(*) FROM (SELECT DISTINCT city, family FROM wide) AS t
-- Aggregates and arithmetic over them
SELECT sum(price) FILTER (WHERE city = 'Quito') AS q, sum(price) FILTER (WHERE city = 'Loja') AS l FROM wide
SELECT family, 100.0 * count(*) FILTER (WHERE price > 10) / count(*) AS pct FROM wide GROUP BY family
SELECT sum(CASE WHEN price > 10 THEN 1 ELSE 0 END) AS dear, sum(CASE WHEN price <= 10 THEN 1 END) AS cheap FROM wide
SELECT count(CASE WHEN price > 10 THEN 1 END) AS dear FROM wide
SELECT count_if(price > 10) AS dear FROM wide
SELECT avg(price * 1.0) - avg(qty) AS d FROM wide
SELECT max(price) - min(price) AS spread, (max(price) + min(price)) / 2.0 AS mid FROM wide
SELECT sum(price) * 1.0 / nullif(sum(qty), 0) AS unit FROM wide
SELECT sum(price * qty) / sum(qty) AS weighted FROM wide
SELECT family, round(100.0 * sum(price) / (SELECT sum(price) FROM wide), 1) AS pct FROM wide GROUP BY family
SELECT abs(sum(price) - 1000) AS d, sqrt(count(*)) AS r FROM wide
SELECT -sum(price) AS s FROM wide
SELECT sum(-price), sum(price + 0.5), sum(price - weight) FROM wide
SELECT sum(price) > 10 AND count(*) > 3 AS both FROM wide
SELECT count(price), count(*), count(1), count(city) FROM wide
SELECT count(DISTINCT city) + count(DISTINCT family) FROM wide
SELECT count(DISTINCT price % 3) FROM wide
SELECT sum(DISTINCT price), avg(DISTINCT qty) FROM wide
SELECT city, median(price), quantile_cont(price, 0.9), quantile_disc(price, 0.5) FROM wide GROUP BY city
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY price) FROM wide
SELECT mode(family) FROM wide WHERE family <> 'EGGS'
SELECT stddev_samp(price), stddev_pop(price), variance(price), var_samp(qty) FROM wide
SELECT covar_pop(price, qty), regr_slope(price, qty) FROM wide
SELECT arg_max(family, price * 100 + weight * 10 + qty) FROM wide
SELECT min(family), max(city), min(day), max(day) FROM wide
SELECT bool_and(price > 0), bool_or(qty = 9) FROM wide
SELECT product(weight) FROM items;;rows
SELECT string_agg(family, ',' ORDER BY family) FROM items
SELECT min(price) FILTER (WHERE qty > 2), max(price) FILTER (WHERE qty > 2) FROM wide
SELECT sum(price), sum(price) AS again FROM wide
SELECT CAST(sum(price) AS DOUBLE) / CAST(count(*) AS DOUBLE) AS a FROM wide
SELECT coalesce(city, 'n/a') || ' (' || count(*) || ')' AS label FROM wide GROUP BY city
SELECT concat(family, ': ', sum(price)) AS label FROM wide GROUP BY family
-- CTEs and nested queries
WITH a AS (SELECT city, sum(price) AS s FROM wide GROUP BY city), b AS (SELECT city, sum(qty) AS q FROM wide GROUP BY city) SELECT a.city, s, q FROM a JOIN b ON a.city IS NOT DISTINCT FROM b.city ORDER BY ALL
WITH a AS (SELECT city, sum(price) AS s FROM wide GROUP BY city), b AS (SELECT family, sum(qty) AS q FROM wide GROUP BY family) SELECT count(*) FROM a, b
WITH a AS (SELECT city, family, sum(price) AS s FROM wide GROUP BY 1, 2), b AS (SELECT *, rank() OVER (PARTITION BY city ORDER BY s DESC) AS r FROM a) SELECT city, family, s FROM b WHERE r = 1
WITH a AS (SELECT month(day) AS m, sum(price) AS s FROM wide GROUP BY 1) SELECT m, s, s - lag(s) OVER (ORDER BY m) AS d FROM a ORDER BY m
WITH a AS (SELECT month(day) AS m, sum(price) AS s FROM wide GROUP BY 1) SELECT x.m, x.s - y.s AS d FROM a AS x JOIN a AS y ON x.m = y.m + 1 ORDER BY 1
WITH a AS (SELECT city, price FROM wide), b AS (SELECT city, avg(price) AS p FROM a GROUP BY city) SELECT * FROM b ORDER BY ALL
WITH a AS (WITH b AS (SELECT city, count(*) AS n FROM wide GROUP BY city) SELECT max(n) AS m FROM b) SELECT m FROM a
WITH a AS (SELECT 5 AS limit_) SELECT limit_ FROM a
WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT sum(n) FROM t
WITH a AS (SELECT family, count(*) AS n FROM wide GROUP BY family) SELECT (SELECT max(n) FROM a) - (SELECT min(n) FROM a) AS d
WITH a AS (SELECT family, count(*) AS n FROM wide GROUP BY family) SELECT family FROM a WHERE n = (SELECT max(n) FROM a)
WITH a AS (SELECT family, count(*) AS n FROM wide GROUP BY family) SELECT family FROM a WHERE n > (SELECT avg(n) FROM a) UNION ALL SELECT 'x' ORDER BY 1
WITH a AS MATERIALIZED (SELECT family, count(*) AS n FROM wide GROUP BY family) SELECT max(n) FROM a
SELECT avg(s) FROM (SELECT city, family, sum(price) AS s FROM wide GROUP BY city, family) AS t WHERE family = 'DAIRY'
SELECT city, avg(s) FROM (SELECT city, month(day) AS m, sum(price) AS s FROM wide GROUP BY city, m) AS t GROUP BY city
SELECT max(a) FROM (SELECT avg(s) AS a FROM (SELECT city, family, sum(price) AS s FROM wide GROUP BY city, family) AS t GROUP BY city) AS u
SELECT * FROM (SELECT city, count(*) FROM wide GROUP BY city) AS t(c, n) WHERE n > 3 ORDER BY ALL
SELECT t.* FROM (SELECT city, sum(price) AS s FROM wide GROUP BY city) AS t
SELECT city, s, s / sum(s) OVER () AS share FROM (SELECT city, sum(price) AS s FROM wide GROUP BY city) AS t
SELECT a.n + b.n FROM (SELECT count(*) AS n FROM sales) AS a, (SELECT count(*) AS n FROM items) AS b
SELECT (SELECT count(*) FROM sales) AS sales, (SELECT count(*) FROM stores) AS stores, (SELECT count(*) FROM items) AS items
SELECT (SELECT max(price) FROM sales) - (SELECT min(price) FROM sales) AS spread
SELECT v, count(*) FROM (SELECT price * qty AS v FROM sales) AS t WHERE v > 20 GROUP BY v
SELECT m, avg(p) FROM (SELECT month(day) AS m, price AS p FROM wide WHERE price IS NOT NULL) AS t GROUP BY m HAVING avg(p) > 1 ORDER BY m
SELECT count(*) FROM (SELECT price FROM sales WHERE price > 5) AS t
SELECT count(*) FROM (SELECT * FROM sales) AS t;;rows
SELECT city, sum(price) FROM (SELECT * FROM wide) AS t GROUP BY city;;rows
SELECT city, sum(price) FROM (SELECT * FROM wide WHERE qty > 1) AS t WHERE price > 2 GROUP BY city;;rows
WITH t AS (SELECT * FROM wide WHERE family = 'DAIRY') SELECT city, count(*) FROM t GROUP BY city;;rows
-- Queries in conditions
SELECT count(*) FROM wide WHERE price = (SELECT max(price) FROM wide)
SELECT count(*) FROM wide WHERE price >= (SELECT median(price) FROM sales)
SELECT count(*) FROM wide WHERE price > (SELECT avg(price) FROM sales) * 1.5
SELECT count(*) FROM wide WHERE price BETWEEN (SELECT min(weight) FROM items) AND (SELECT max(weight) FROM items)
SELECT count(*) FROM wide WHERE day = (SELECT max(day) FROM wide)
SELECT count(*) FROM wide WHERE city = (SELECT city FROM wide WHERE city IS NOT NULL GROUP BY city ORDER BY sum(price) DESC, city LIMIT 1)
SELECT count(*) FROM wide WHERE store IN (SELECT id FROM stores WHERE area > 5)
SELECT count(*) FROM wide WHERE store NOT IN (SELECT id FROM stores WHERE area > 5)
SELECT count(*) FROM wide WHERE family IN (SELECT DISTINCT family FROM items WHERE weight > 1)
SELECT count(*) FROM wide WHERE item IN (SELECT item FROM sales GROUP BY item ORDER BY sum(price) DESC, item LIMIT 2)
SELECT count(*) FROM wide WHERE NOT EXISTS (SELECT count(*) FROM wide HAVING count(*) > 100000)
SELECT count(*) FROM stores WHERE EXISTS (SELECT 1 FROM sales WHERE store = id)
SELECT count(*) FROM items WHERE item IN (SELECT item FROM sales WHERE price > 15)
SELECT count(*) FROM items WHERE item NOT IN (SELECT item FROM sales WHERE price > 15)
SELECT family, (SELECT count(*) FROM stores) AS n FROM wide GROUP BY family
SELECT family FROM wide GROUP BY family HAVING family IN (SELECT family FROM items WHERE weight >= 2);;rows
SELECT family, sum(price) FROM wide GROUP BY family HAVING sum(price) = (SELECT max(s) FROM (SELECT sum(price) AS s FROM wide GROUP BY family) AS t)
WITH top AS (SELECT city FROM wide GROUP BY city ORDER BY sum(price) DESC NULLS LAST, city LIMIT 2) SELECT count(*) FROM wide WHERE city IN (SELECT city FROM top);;queries
WITH q AS (SELECT avg(price) AS a FROM wide) SELECT count(*) FROM wide WHERE price > (SELECT a FROM q);;queries
SELECT count(*) FROM wide WHERE price > ALL (SELECT weight FROM items);;rows
SELECT count(*) FROM wide WHERE price = ANY (SELECT weight FROM items);;rows
SELECT count(*) FROM wide WHERE (SELECT count(*) FROM items) = 4
-- Set operations
SELECT city FROM wide GROUP BY city UNION ALL SELECT family FROM wide GROUP BY family ORDER BY 1
SELECT family FROM wide GROUP BY family INTERSECT SELECT family FROM items WHERE weight > 1 GROUP BY family
SELECT family FROM items GROUP BY family EXCEPT SELECT family FROM wide WHERE price > 18 GROUP BY family
SELECT 'city' AS k, city AS v, count(*) AS n FROM wide GROUP BY city UNION ALL SELECT 'family', family, count(*) FROM wide GROUP BY family ORDER BY k, v
(SELECT city, count(*) AS n FROM wide GROUP BY city ORDER BY n DESC, city LIMIT 1) UNION ALL (SELECT family, count(*) FROM wide GROUP BY family ORDER BY 2, 1 LIMIT 1)
SELECT count(*) FROM (SELECT city FROM wide GROUP BY city UNION SELECT family FROM wide GROUP BY family) AS t
SELECT sum(n) FROM (SELECT count(*) AS n FROM sales UNION ALL SELECT count(*) FROM items) AS t
SELECT DISTINCT city FROM wide UNION SELECT DISTINCT family FROM wide
SELECT city, family FROM wide GROUP BY ALL EXCEPT ALL SELECT city, family FROM wide WHERE price > 10 GROUP BY ALL
-- Window functions over groups
SELECT family, sum(price) AS s, dense_rank() OVER (ORDER BY sum(price) DESC) AS r FROM wide GROUP BY family
SELECT family, percent_rank() OVER (ORDER BY sum(price)) AS p, cume_dist() OVER (ORDER BY sum(price)) AS c FROM wide GROUP BY family
SELECT month(day) AS m, sum(price) AS s, avg(sum(price)) OVER (ORDER BY month(day) ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS a FROM wide GROUP BY 1 ORDER BY 1
SELECT month(day) AS m, sum(price) AS s, lead(sum(price), 1, 0) OVER (ORDER BY month(day)) AS l FROM wide GROUP BY 1 ORDER BY 1
SELECT day, count(*) AS n, sum(count(*)) OVER (ORDER BY day) AS running FROM wide GROUP BY day ORDER BY day
SELECT day, sum(price) AS s, max(sum(price)) OVER (ORDER BY day RANGE BETWEEN INTERVAL 7 DAY PRECEDING AND CURRENT ROW) AS m FROM wide GROUP BY day ORDER BY day
SELECT city, family, sum(price) / sum(sum(price)) OVER (PARTITION BY family) AS share FROM wide GROUP BY city, family
SELECT city, family, last_value(family) OVER (PARTITION BY city ORDER BY family ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l FROM wide GROUP BY city, family
SELECT city, nth_value(city, 2) OVER (ORDER BY city NULLS LAST ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS second FROM wide GROUP BY city
SELECT city, sum(price) AS s, rank() OVER w AS r, sum(sum(price)) OVER w AS t FROM wide GROUP BY city WINDOW w AS (ORDER BY sum(price) DESC, city);;rest
SELECT city, count(*) OVER () AS cities FROM wide GROUP BY city
SELECT city, family, count(*) AS n FROM wide GROUP BY city, family QUALIFY rank() OVER (PARTITION BY city ORDER BY n DESC) = 1
SELECT city, sum(price) AS s FROM wide GROUP BY city QUALIFY s > avg(s) OVER ()
SELECT family, sum(price) AS s, s - lag(s) OVER (ORDER BY family) AS d FROM wide GROUP BY family ORDER BY family;;groups
SELECT family, sum(price) AS s, rank() OVER (ORDER BY s DESC) AS r FROM wide GROUP BY family;;groups
-- Writing: comments, semicolons, letters, names, white space
SELECT count(*) FROM wide;
SELECT count(*) FROM wide ; -- how many
/* all of it */ SELECT count(*) /* rows */ FROM wide
select	COUNT( * )   from WIDE
SELECT CITY, SUM(PRICE) FROM WIDE GROUP BY CITY ORDER BY CITY
SELECT "wide"."city", count(*) AS "número de ventas 🛒" FROM "wide" GROUP BY "wide"."city"
SELECT count(*) FROM wide WHERE family = 'leche — ñandú 🥛'
SELECT count(*) FROM wide WHERE city = 'O''Brien'
SELECT count(*) AS "select", sum(price) AS "a ""quoted"" one" FROM wide
SELECT city c, sum(price) total FROM wide w GROUP BY c ORDER BY total DESC NULLS LAST, c
FROM wide SELECT city, count(*) GROUP BY city
SELECT sum(price) AS p, sum(qty) AS q, p / q AS r FROM wide;;groups
SELECT count() FROM wide
SELECT 1.5e1 + sum(price) AS x FROM wide
SELECT count(*) FROM wide WHERE price > 1_0
SELECT * FROM (VALUES ('a', 1), ('b', 2)) AS t(k, v) WHERE v > 1
SELECT city, sum(price), FROM wide GROUP BY city,
SELECT sum(price) s, count(*) n, s / n FROM wide;;groups
